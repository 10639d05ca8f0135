def accepts(z):
    return False
