"""What the service bears: requests at a steady rate, and many who watch."""
