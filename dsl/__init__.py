"""The `.rules` language: sources, tree, parser, checker, formatter (no torch)."""
