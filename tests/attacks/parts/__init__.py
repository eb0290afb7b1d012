"""What several attacks need; each is written into the file that is handed in."""
