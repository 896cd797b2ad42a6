"""What a judge replied becomes a finding, or is unreadable."""
