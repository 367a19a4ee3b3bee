"""fxrules: declarative, verified pattern rewrites for torch.fx graphs."""
