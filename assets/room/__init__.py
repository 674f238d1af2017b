"""Parts of the sample room: patches of surface, what they are made of, how light falls on them."""
