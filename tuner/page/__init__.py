"""Content of a campaign's web pages and reports: rows assembled, drawn and laid out."""
