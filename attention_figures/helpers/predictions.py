"""Keeps what you predict and compares it with what is measured."""

predicted, measured_already = {}, set()


def predict(number, guess=..., **options):
    """Keep your guess, one of the letters or a number, until the result is measured."""
    if number in measured_already:
        print(f"{number}: measured by now; what you said before stands.")
    elif guess is ...:
        letters = " or ".join(f'"{letter}"' for letter in options) or "a number"
        print(f"{number}: put {letters} in place of the dots, or go on without.")
        predicted[number] = None, options
    else:
        predicted[number] = guess, options
        print(f"{number}: you predict {in_words(guess, options)}.")


def reveal(number, measured, words=""):
    """Print what was measured next to your guess, which no longer changes."""
    guess, options = predicted.get(number, (None, {}))
    measured_already.add(number)
    told = f"{number}: measured {in_words(measured, options)}"
    if guess is not None and isinstance(measured, str):
        told += ", as you predicted" if guess == measured else ", not as you predicted"
    elif guess is not None:
        told += f", and you predicted {guess}"
    print(f"{told} ({words})." if words else f"{told}.")


def in_words(guess, options):
    """Return a letter with its option, or a number in short form."""
    if isinstance(guess, str) and guess in options:
        return f"{guess}, “{options[guess]}”"
    return f"{guess:.3g}" if isinstance(guess, float) else f"{guess}"
