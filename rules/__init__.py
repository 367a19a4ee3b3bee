"""Rule libraries shipped with fxrules."""
