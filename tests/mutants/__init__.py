"""Wrong implementations that a check must catch: one package a notebook."""
