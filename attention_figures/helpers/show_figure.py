"""Shows a figure with its description, or a live one if the course is installed."""

import base64
import html
import io

import matplotlib.pyplot as plt
from IPython.display import HTML, display

try:  # live figures, which need the course to be installed
    from attention_figures import live
    from attention_figures.appearance import for_matplotlib

    plt.rcParams.update(for_matplotlib())
except ImportError:
    live = None


def show(fig, alt, caption, touch=None):
    """Display a figure with alternative text for screen readers and a caption.

    touch: the name and the data of a live figure that replaces the picture.
    """
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=110, bbox_inches="tight", facecolor="white")
    plt.close(fig)
    data = base64.b64encode(buffer.getvalue()).decode()
    source = f"data:image/png;base64,{data}"
    picture = f'<img alt="{html.escape(alt)}" src="{source}" style="max-width:100%">'
    caption_below = f"<figcaption>{html.escape(caption)}</figcaption>"
    if touch and live:
        display(HTML(live(*touch, picture, caption)))
    else:
        display(HTML(f"<figure>{picture}{caption_below}</figure>"))
