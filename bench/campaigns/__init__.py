"""Whole campaigns on a testbed whose truth is known: how often is the answer right?"""
