"""Ops, by their names, of which no schema says what they do besides computing a value."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Ops whose schema does not say that the result may be (a view of) an argument.
MAY_RETURN_ARGUMENT = _words("""
    dropout alpha_dropout feature_dropout feature_alpha_dropout dropout1d dropout2d dropout3d type_as conj_physical
    sum_to_size einsum broadcast_tensors meshgrid atleast_1d atleast_2d atleast_3d flatten_dense_tensors
    resolve_conj resolve_neg identity reshape_as view_as expand_as pad getitem getattr mT mH T H real imag data type
    float double half bfloat16 int long short bool char byte cpu cuda to contiguous requires_grad_
    cartesian_prod unsafe_chunk unsafe_split unsafe_split_with_sizes concat device_put
""")
# Ops that export's fake tensors copy where the real op gives back its argument.
FAKED_AS_COPY = _words("dropout")
MAY_COPY = MAY_RETURN_ARGUMENT - _words("getitem getattr mT mH T H imag data view_as expand_as") | _words(
    "reshape flatten ravel contiguous unflatten"
)
# Functions that draw random numbers for an op which is given them.
DRAWS = _words("""
    fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices
""")
STATE = _words("""
    manual_seed seed set_rng_state set_grad_enabled _set_grad_enabled _enter_autocast _exit_autocast
    set_default_dtype set_default_device use_deterministic_algorithms set_autocast_enabled set_autocast_dtype
    set_autocast_cache_enabled autocast_increment_nesting autocast_decrement_nesting clear_autocast_cache
    inference_mode no_grad enable_grad set_float32_matmul_precision set_num_threads set_flush_denormal
""")
QUERIES = _words("""
    size dim ndimension numel nelement stride item tolist is_contiguous element_size storage_offset get_device
    is_floating_point is_complex data_ptr __len__ __bool__ __int__ __float__
""")
STATISTICS = _words("""
    batch_norm native_batch_norm batch_norm_update_stats cudnn_batch_norm miopen_batch_norm _batch_norm_impl_index
    instance_norm
""")
# Embeddings that scale their weight in place where they are given a ``max_norm``.
RENORMALISED = _words("embedding embedding_bag")
# Functions of ``operator`` that run what they are given, and builtins that do nothing but compute.
CALLS = _words("call methodcaller attrgetter itemgetter")
PLAIN_BUILTINS = _words("""
    getattr hasattr len tuple list dict set frozenset slice int float bool complex str abs min max sum round pow divmod
    all any range zip enumerate reversed sorted isinstance issubclass callable type id hash repr
""")
IN_PLACE_OPERATORS = _words("""
    setitem delitem iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor
    __setitem__ __delitem__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__ __ior__ __ipow__
    __irshift__ __isub__ __itruediv__ __ixor__
""")
