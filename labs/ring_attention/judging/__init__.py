"""How the answers of notebook 04 are judged: trials on ranks, what they show, and the hints."""
