"""Runs of compiled steps: their start, data, checkpoints, memory, and loops of the user's own."""
