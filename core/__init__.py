"""What every room speaks in: frozen values, the speed-up bins, errors and protocols.

Standard library only, so that it loads on a bare GPU machine.
"""
