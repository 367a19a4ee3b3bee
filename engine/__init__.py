"""The engine: families, matching, guards, surgery, fixpoint."""
