"""What a captured graph is: its calls, its form, its arguments and results."""
