"""Checkpoints of runs: looked into, verified, and taken to and from PyTorch's own formats.

python -m fsdp_mlir.checkpoint {inspect,verify,export,import,reshard}
"""
