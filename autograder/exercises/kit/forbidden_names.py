"""Lists the names that no answer may use, in NumPy units and in torch units."""

from __future__ import annotations

from ...worker.call_monitor_torch import ROOMS

#: Libraries that a NumPy answer may not import; `autograder` contains the references.
NOT_IN_NUMPY_UNITS = ("torch", "functorch", "scipy", "sklearn", "jax", "tensorflow", "autograder")
#: Kernels of torch's own attention; their names differ between versions and devices.
KERNELS = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
    "_cudnn_attention_forward",
    "_efficient_attention_forward",
    "_flash_attention_forward",
    "_flash_attention_forward_no_dropout_inplace",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
    "_triton_multi_head_attention",
    "_triton_scaled_dot_attention",
)
#: Calls that compute a whole attention, which no torch answer may use.
NOT_IN_TORCH_UNITS = (
    "F.scaled_dot_product_attention",
    "functional.scaled_dot_product_attention",
    "F.multi_head_attention_forward",
    "functional.multi_head_attention_forward",
    "nn.MultiheadAttention",
    "nn.Transformer",
    "nn.TransformerEncoder",
    "nn.TransformerDecoder",
    "nn.TransformerEncoderLayer",
    "nn.TransformerDecoderLayer",
    *(f"aten.{kernel}" for kernel in KERNELS),
    *ROOMS,
    "autograder",
)
