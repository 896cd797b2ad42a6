"""What a browser or a scraper sees."""
