"""Runs of campaigns in processes of their own: started at once, or queued for workers."""
