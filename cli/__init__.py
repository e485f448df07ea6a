"""The `forewarp` command: one small file per verb, arguments in, tables or one JSON document out.

Nothing imports this room. Modules import what they need inside their functions, so that help is instant.
"""
