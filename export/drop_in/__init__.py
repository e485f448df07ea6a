"""Parts of exported modules and ops: what they hold besides the reference, the kernel and its shapes.

Each file is written into the exported module as text, so it imports torch and the standard library only, and its names
begin with an underscore.
"""
