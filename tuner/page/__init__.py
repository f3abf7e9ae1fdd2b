"""What pages and reports show of a campaign: its rows put together, drawn, and laid out."""
