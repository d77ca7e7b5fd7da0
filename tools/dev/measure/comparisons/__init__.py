"""The tables that compare ddprun with Python, and with itself."""
