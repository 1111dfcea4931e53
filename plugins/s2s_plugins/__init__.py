"""The command s2s-plugins: what is installed, and every option of it."""
