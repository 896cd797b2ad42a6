"""What channels are made of: requests that keep their address to themselves, and the sections of their settings."""
