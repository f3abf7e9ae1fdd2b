"""Applying recommended configurations, rolling them back and verifying them."""
