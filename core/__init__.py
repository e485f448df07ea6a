"""Frozen values, speed-up bins, errors and protocols that all packages share.

Standard library only, so that it loads on a bare GPU machine.
"""
