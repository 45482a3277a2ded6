"""What a converted file holds."""
