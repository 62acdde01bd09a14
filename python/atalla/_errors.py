class AtallaError(RuntimeError):
    """What the compiler or the runtime refuses, in one sentence."""
