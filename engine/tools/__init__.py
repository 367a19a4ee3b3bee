"""Command line and other front ends of the engine."""
