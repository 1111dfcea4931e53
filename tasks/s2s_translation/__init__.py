"""Translation, as a plugin."""
