"""What a user says of a training step: model, units, precision, clipping, first values."""
