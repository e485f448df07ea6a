"""Every text that goes to a language model, as Jinja templates, and the renderer that fills them."""
