"""Deployment: the private cell, virtual machines, service units and example campaigns."""
