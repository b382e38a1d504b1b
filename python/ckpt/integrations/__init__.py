"""Seams of frameworks: each module imports its framework, and nothing else of ckpt imports these modules."""
