"""An optimizer as rules: small programs captured from its own step."""
