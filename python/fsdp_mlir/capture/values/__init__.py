"""What Python asks of tensors while a step is captured: numbers, sizes, decisions."""
