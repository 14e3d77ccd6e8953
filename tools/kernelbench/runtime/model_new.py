

def _kb_architecture():
    """The flag that names the architecture, so that PyTorch takes no notice of TORCH_CUDA_ARCH_LIST: the kernels are
    compiled as they were measured, with the instructions of that one architecture (sm_90a). Another device has its own;
    without a device it is the measured one."""
    here = _kb_torch.cuda.get_device_capability() if _kb_torch.cuda.is_available() else _KB_MEASURED_ON
    if here is None:
        raise RuntimeError(f"{_KB_NAME}: its kernels are CUDA's, there is no GPU here, and they were measured on none: "
                           "import it where there is a GPU")
    number = f"{here[0]}{here[1]}{'a' if here[0] >= 9 else ''}"
    return [f"-gencode=arch=compute_{number},code=sm_{number}"]


def _kb_build():
    # Where it names no architecture, PyTorch looks for one, kernels or not, and fails where there is no GPU. Half of the
    # time of compiling at -O2 is optimisation, and a call waits for PyTorch and CUDA.
    options = dict(name=_KB_NAME, cpp_sources=[_KB_CPP], extra_cflags=["-O1", "-Wno-unused-function"],
                   extra_cuda_cflags=["-arch=native"], with_cuda=_KB_NEEDS_CUDA)
    if _KB_CUDA:
        # As NVRTC compiled the kernels when they were measured: products and sums contract, no fast math.
        options.update(cuda_sources=[_KB_CUDA], extra_cuda_cflags=[
            "-O3", "-std=c++20", "--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true",
            *_kb_architecture()])
    # If PyTorch can omit its own headers, compiling takes a third of the time.
    if "no_implicit_headers" in _kb_inspect.signature(_kb_load_inline).parameters:
        options.update(no_implicit_headers=True)
    return _kb_load_inline(**options)


_kb_extension = _kb_build()


# ---- arguments ----

_KB_FORWARD = _kb_inspect.signature(Model.forward)
_KB_PARAMETERS = [p for p in _KB_FORWARD.parameters.values()][1:]
# Where all can be given by position: their names, and the values of those that may be left out.
_KB_NAMES = (None if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in _KB_PARAMETERS)
             else [p.name for p in _KB_PARAMETERS])
_KB_DEFAULTS = {p.name: p.default for p in _KB_PARAMETERS if p.default is not p.empty}


def _kb_in_order(args, kwargs):
    """forward's arguments, one for each of its parameters."""
    if _KB_NAMES is None:
        bound = _KB_FORWARD.bind(None, *args, **kwargs)
        bound.apply_defaults()
        return tuple(bound.arguments.values())[1:]
    if not kwargs and len(args) == len(_KB_NAMES):
        return args
    values, named = list(args), 0
    for name in _KB_NAMES[len(args):]:
        if name in kwargs:
            named += 1
            values.append(kwargs[name])
        elif name in _KB_DEFAULTS:
            values.append(_KB_DEFAULTS[name])
    if named != len(kwargs) or len(values) != len(_KB_NAMES):
        _KB_FORWARD.bind(None, *args, **kwargs)  # says what is missing or too much
    return tuple(values)


def _kb_items(value):
    """What a container has: names, or places, and values; None of anything else."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value))
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if _kb_dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in _kb_dataclasses.fields(value) if field.init]
    return None


def _kb_example(value):
    """An argument that the program was made for, with None in the place of tensors, as pairs: ("tensor", None),
    ("value", 3), ("items", [("x", example of x), ...])."""
    items = _kb_items(value)
    if items is not None:
        return "items", tuple([(key, _kb_example(item)) for key, item in items])
    return ("tensor", None) if isinstance(value, _kb_torch.Tensor) else ("value", value)


def _kb_made_for():
    """Examples of all arguments, from get_inputs, whose random numbers leave no trace."""
    if not _KB_EXAMPLES:
        devices = [_kb_torch.cuda.current_device()] if _kb_torch.cuda.is_initialized() else []
        with _kb_torch.random.fork_rng(devices=devices):
            given = get_inputs()
        values = _kb_in_order((), given) if isinstance(given, dict) else _kb_in_order(tuple(given), {})
        _KB_EXAMPLES.extend([_kb_example(value) for value in values])
    return tuple(_KB_EXAMPLES)


_KB_EXAMPLES = []
_kb_made_for._dynamo_marked_constant = True  # torch.compile calls it, rather than looking into it


def _kb_refused(where, wanted, value):
    return RuntimeError(f"{_KB_NAME}: this program was made for a call whose {where} is {wanted}, but was given {value}")


def _kb_add_tensors(value, example, where, tensors):
    """Adds the tensors of an argument in the order of the example, whatever the order of a dict's keys."""
    kind, wanted = example
    if kind == "tensor":
        if not isinstance(value, _kb_torch.Tensor):
            raise _kb_refused(where, "a tensor", repr(value))
        tensors.append(value)
    elif kind == "value":
        if isinstance(value, _kb_torch.Tensor):
            raise _kb_refused(where, repr(wanted), "a tensor")
        alike = all([isinstance(value, kind) == isinstance(wanted, kind) for kind in (bool, float)])
        if not alike or value != wanted:
            raise _kb_refused(where, repr(wanted), repr(value))
    else:
        items = _kb_items(value)
        keys = [key for key, _ in wanted]
        if items is None or len(items) != len(keys) or any([key not in keys for key, _ in items]):
            raise _kb_refused(where, f"a container of {keys}", f"a {type(value).__name__}" + (
                "" if items is None else f" of {[key for key, _ in items]}"))
        given = dict(items)
        for key, item in wanted:
            _kb_add_tensors(given[key], item, f"{where}[{key!r}]", tensors)


def _kb_tensors(values):
    """The tensors among forward's arguments. All else must be as in the call that the program was made for."""
    if all([isinstance(v, _kb_torch.Tensor) for v in values]):
        return list(values)
    tensors = []
    for value, example, parameter in zip(values, _kb_made_for(), _KB_PARAMETERS):
        _kb_add_tensors(value, example, parameter.name, tensors)
    return tensors


# ---- what the module holds ----


def _kb_owner(model, name):
    """The submodule that a name like "inner.conv.weight" is in, or None; and the last part of the name."""
    *path, leaf = name.split(".")
    for word in path:
        model = None if model is None else getattr(model, word, None)
    return model, leaf


def _kb_constant(dtype, shape, text):
    data = bytearray(_kb_zlib.decompress(_kb_base64.b64decode(text)))
    return _kb_torch.frombuffer(data, dtype=getattr(_kb_torch, dtype)).reshape(shape)


_KB_CONSTANT = {name: _kb_constant(*packed) for name, packed in _KB_CONSTANTS.items()}


def _kb_find(model, name):
    """The dictionary that holds a tensor of the module, parameter, buffer or attribute, and its key there."""
    owner, leaf = _kb_owner(model, name)
    for held in () if owner is None else (owner._parameters, owner._buffers, owner.__dict__):
        if isinstance(held.get(leaf), _kb_torch.Tensor):
            return held, leaf
    return None


def _kb_place(model, name):
    """Where a tensor is that forward keeps: the module, the name there, and the index where that is a tuple or a
    list."""
    owner, leaf = _kb_owner(model, name)
    if owner is not None and hasattr(owner, leaf):
        return owner, leaf, None
    row, _, index = name.rpartition(".")
    owner, leaf = _kb_owner(model, row)
    if owner is not None and hasattr(owner, leaf) and index.isdigit():
        return owner, leaf, int(index)
    raise RuntimeError(f"{_KB_NAME}: the module has no tensor {name}")


def _kb_get(held, leaf, index):
    """Of a module, or of one of its dictionaries, in which it is found faster."""
    value = held[leaf] if isinstance(held, dict) else getattr(held, leaf)
    return value if index is None else value[index]


def _kb_set(held, leaf, index, tensor):
    """A row gets a new one in its place, as forward makes it."""
    if index is not None:
        row = list(_kb_get(held, leaf, None))
        row[index] = tensor
        tensor = type(_kb_get(held, leaf, None))(row)
    if isinstance(held, dict):
        held[leaf] = tensor
    else:
        setattr(held, leaf, tensor)


def _kb_kept(model):
    """What a call leaves for the next one: kind, output, and its place in the module."""
    return [(kind, output, *_kb_place(model, name)) for name, kind, _, output in _KB_STATES if kind != "argument"]


_KB_CHANGED_ARGUMENTS = [(source, output) for _, kind, source, output in _KB_STATES if kind == "argument"]


def _kb_span(t):
    begin = t.data_ptr()
    return begin, begin + (sum([(n - 1) * s for n, s in zip(t.shape, t.stride())]) + 1) * t.element_size()


def _kb_check_overlap(tensors):
    """What forward writes into must share no memory with what else it is given: the program reads all first."""
    for changed, _ in _KB_CHANGED_ARGUMENTS:
        begin, end = _kb_span(tensors[changed])
        for i, t in enumerate(tensors):
            other = _kb_span(t)
            if i != changed and t.numel() and begin < other[1] and other[0] < end:
                raise RuntimeError(f"{_KB_NAME}: forward writes into its tensor {changed}, which shares memory with "
                                   f"tensor {i}; give it a clone")


def _kb_keep(kept, tensors, outputs):
    """After a call: what forward leaves in the module and in its arguments."""
    for kind, output, *place in kept:
        if kind == "assigned":
            _kb_set(*place, outputs[output])
        else:
            _kb_get(*place).detach().copy_(outputs[output].detach())
    for source, output in _KB_CHANGED_ARGUMENTS:
        tensors[source].copy_(outputs[output])


# ---- the program as an operator of PyTorch: for torch.compile, torch.export, torch.jit.trace, torch.func ----


def _kb_owned(tensors, others):
    """Dense and in memory of their own: what an operator may return without saying that it shares memory."""
    shared, owned = [t.untyped_storage().data_ptr() for t in others], []
    for t in tensors:
        t = t if _kb_is_dense(t) else t.contiguous()
        owned.append(t.clone() if t.untyped_storage().data_ptr() in shared else t)
        shared.append(owned[-1].untyped_storage().data_ptr())
    return owned


def _kb_is_dense(t):
    size = 1
    for stride, n in sorted(zip(t.stride(), t.shape)):
        if n > 1 and stride != size:
            return False
        size *= n
    return True


_KB_LOADED = {}  # programs by the places of their weights, the last few


def _kb_is_capturing():
    return _kb_torch.cuda.is_initialized() and _kb_torch.cuda.is_current_stream_capturing()


def _kb_operate(inputs, weights):
    places = tuple([w.data_ptr() for w in weights])
    found = _KB_LOADED.get(places)
    if found is None:
        while len(_KB_LOADED) >= 8:
            del _KB_LOADED[next(iter(_KB_LOADED))]
        held = {}
        found = _KB_LOADED[places] = held, _kb_extension.Program([(held, str(i)) for i in range(len(weights))], [],
                                                                    (None, None), True, _kb_without_gradients)
    held, program = found
    held.update({str(i): w for i, w in enumerate(weights)})
    with _kb_torch.no_grad():
        outputs = program.call(inputs, None, _kb_is_capturing())
    return _kb_owned(outputs if isinstance(outputs, tuple) else (outputs,), [*inputs, *weights])


def _kb_check_devices(inputs, weights):
    """All on one: real tensors are checked by the program, others here."""
    named = [(f"input {i}", t) for i, t in enumerate(inputs)] + [(f"weight {i}", t) for i, t in enumerate(weights)]
    for name, t in named[1:]:
        if t.device != named[0][1].device:
            raise RuntimeError(f"{_KB_NAME}: {name} is on {t.device}, and {named[0][0]} on {named[0][1].device}")


def _kb_check_types(tensors, types, kind):
    for i, (t, (dtype, shape, _)) in enumerate(zip(tensors, types)):
        if t.dtype != dtype or list(t.shape) != shape:
            raise RuntimeError(f"{_KB_NAME}: {kind} {i} is {t.dtype} {list(t.shape)}, and this program was made for "
                               f"{dtype} {shape}")


def _kb_fake(inputs, weights):
    """The types of the outputs."""
    _kb_check_types(inputs, _KB_INPUT_TYPES, "input")
    _kb_check_types(weights, _KB_WEIGHT_TYPES, "weight")
    _kb_check_devices(inputs, weights)
    like = inputs[0] if inputs else weights[0]
    made = [like.new_empty_strided(shape, strides, dtype=dtype) for dtype, shape, strides in _KB_OUTPUT_TYPES]
    return [t if _kb_is_dense(t) else t.contiguous() for t in made]


_KB_NO_GRADIENTS = (f"{_KB_NAME}: this program computes no gradients. Call the module under torch.no_grad() or "
                    "torch.inference_mode(); for gradients train with Model, or export with --gradients eager")


def _kb_without_gradients(outputs, sources):
    """Tensors like the outputs that depend on the sources, and whose backward() raises the error."""
    refuse = _kb_torch._C._functions.DelayedError(_KB_NO_GRADIENTS, len(outputs) + len(sources))
    return refuse(*outputs, *sources)[:len(outputs)]


def _kb_refuse_gradients(gradients):
    raise RuntimeError(_KB_NO_GRADIENTS)


def _kb_backward(ctx, *gradients):
    """An operator of its own, so that a module can be compiled whose gradients nobody asks for."""
    made = _KB_OPERATORS[1]([g for g in _kb_pytree.tree_leaves(gradients) if g is not None])
    made = [g if g.is_floating_point() else None for g in made]
    return made[:len(_KB_INPUT_TYPES)], made[len(_KB_INPUT_TYPES):]


def _kb_gradient_types(gradients):
    types = _KB_INPUT_TYPES + _KB_WEIGHT_TYPES
    return [gradients[0].new_empty(shape, dtype=dtype) for dtype, shape, _ in types]


def _kb_register():
    """The operators cudal1::NAME and cudal1::NAME_backward; once, however often the file is executed."""
    space, backward = _kb_torch.ops.cudal1, _KB_NAME + "_backward"
    if not hasattr(space, _KB_NAME):
        library = _kb_torch.library.Library("cudal1", "FRAGMENT")
        library.define(f"{_KB_NAME}(Tensor[] inputs, Tensor[] weights) -> Tensor[]")
        library.define(f"{backward}(Tensor[] gradients) -> Tensor[]")
        library.impl(_KB_NAME, _kb_operate, "CompositeExplicitAutograd")
        library.impl(backward, _kb_refuse_gradients, "CompositeExplicitAutograd")
        _kb_torch.library.register_fake(f"cudal1::{_KB_NAME}", _kb_fake, lib=library)
        _kb_torch.library.register_fake(f"cudal1::{backward}", _kb_gradient_types, lib=library)
        _kb_torch.library.register_autograd(f"cudal1::{_KB_NAME}", _kb_backward, lib=library)
        setattr(space, f"_library_of_{_KB_NAME}", library)  # the operators end with it
    return getattr(space, _KB_NAME).default, getattr(space, backward).default


_KB_OPERATORS = _kb_register()


def _kb_weight(model, name, like):
    owner, leaf = _kb_owner(model, name)
    found = None if owner is None else getattr(owner, leaf, None)
    if isinstance(found, (_kb_torch.nn.Parameter, _kb_torch.Tensor)):
        return found if leaf in owner._parameters or leaf in owner._buffers else found.to(like.device)
    if name not in _KB_CONSTANT:
        raise RuntimeError(f"{_KB_NAME}: the module has no parameter or buffer {name}")
    return _KB_CONSTANT[name].to(like.device)


def _kb_wants_gradients(model, values):
    given = [v for v in _kb_pytree.tree_leaves(values) if isinstance(v, _kb_torch.Tensor)]
    return _kb_torch.is_grad_enabled() and any([t.requires_grad for t in (*given, *model.parameters())])


def _kb_call_as_operator(model, values):
    """A call as torch.compile can record it."""
    for name, training in model._kb_modes.items():
        if model.get_submodule(name).training != training:
            raise RuntimeError(_kb_wrong_mode(model))
    tensors = _kb_tensors(values)
    kept = _kb_kept(model)
    like = tensors[0] if tensors else next(model.parameters())
    inputs = [*tensors, *[_kb_get(*place).to(like.device) for _, _, *place in kept]]
    outputs = _KB_OPERATORS[0](inputs, [_kb_weight(model, name, like) for name in _KB_WEIGHTS])
    _kb_keep(kept, tensors, outputs)
    return _kb_returned(outputs)


def _kb_returned(outputs):
    if _KB_RETURNS is not None:
        return _KB_RETURNS(outputs)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _kb_other_cudnn():
    """What a program that names engines of cuDNN must say where another version is."""
    if _KB_CUDNN is None:
        return []
    number = _kb_torch.backends.cudnn.version() or 0
    here = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return [] if here == _KB_CUDNN else [f"its convolutions name engines of cuDNN {_KB_CUDNN} by number, which may be "
                                         f"others in the {here} that is here"]


# ---- the module ----


def _kb_wrong_mode(model):
    """What to do where modules are in another mode than when the program was made."""
    modes = model._kb_modes
    wrong = [name for name, training in modes.items() if model.get_submodule(name).training != training]
    training = modes[wrong[0]]
    named = [name or "the model itself" for name in wrong if modes[name] == training]
    said = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
    whole = all([m == training for m in modes.values()])
    return (f"{_KB_NAME}: this program was made with modules in {'training' if training else 'evaluation'} mode that "
            f"are in the other one now ({said}); call {'train()' if training else 'eval()'}"
            + ("" if whole else " on these, and leave the others as Model makes them"))


def _kb_anchors(model):
    """What a program relies on, as dictionaries that have these very objects: submodules on the way to its weights, and
    modes. The model's own mode is not among them, since its dictionary holds the program."""
    paths = {".".join(name.split(".")[:n]) for name in [*_KB_WEIGHTS, *[state[0] for state in _KB_STATES]]
             for n in range(1, name.count(".") + 1)}
    for name in filter(None, model._kb_modes):
        paths.update([".".join(name.split(".")[:n + 1]) for n in range(name.count(".") + 1)])
    found = []
    for path in sorted(paths):
        owner, leaf = _kb_owner(model, path)
        if owner is not None and leaf in getattr(owner, "_modules", ()):
            found.append((owner._modules, leaf, owner._modules[leaf]))
    return found + [(model.get_submodule(name).__dict__, "training", training)
                    for name, training in model._kb_modes.items() if name]


class _KbState:
    """A module's program, and where its weights are."""

    def __init__(self, model):
        self.constants = {}
        self.device = None
        weights, anchors = [], _kb_anchors(model)
        for name in _KB_WEIGHTS:
            found = _kb_find(model, name)
            if found is None or found[0] is getattr(_kb_owner(model, name)[0], "__dict__", None):
                # An attribute, which to() does not move, or a constant.
                constant = _KB_CONSTANT.get(name) if found is None else found[0][found[1]]
                if constant is None:
                    raise RuntimeError(f"{_KB_NAME}: the module has no parameter or buffer {name}")
                if found is not None and found[0] is not model.__dict__:
                    anchors.append((*found, constant))
                self.constants[name] = constant
                found = self.constants, name
            weights.append(found)
        self.program = _kb_extension.Program(weights, anchors, (_kb_weakref.ref(model), model._kb_modes.get("")),
                                             _KB_GRADIENTS != "eager", _kb_without_gradients)
        self.quick = self.program.quick
        self.kept = [(kind, output, self.holder(owner, leaf), leaf, index)
                     for kind, output, owner, leaf, index in _kb_kept(model)]

    @staticmethod
    def holder(owner, leaf):
        return next(held for held in (owner._parameters, owner._buffers, owner.__dict__) if leaf in held)

    def call(self, args):
        """A call like the last one, else None."""
        kept = tuple([_kb_get(*place) for _, _, *place in self.kept])
        if _KB_CHANGED_ARGUMENTS:
            tensors = [v for v in args if isinstance(v, _kb_torch.Tensor)]
            if _kb_extension.is_watched(tensors):
                return None
            _kb_check_overlap([*tensors, *kept])
        else:
            tensors = ()
        outputs = self.quick(args + kept)
        return None if outputs is None else self.after(tensors, outputs)

    def any_call(self, given, values):
        """Any call; the next one like it is quick. `given`: the arguments by position, as forward gets them."""
        tensors = _kb_tensors(values)
        capturing = _kb_is_capturing()  # what is made now must not be part of the caller's graph
        if self.constants and tensors and tensors[0].device != self.device and not capturing:
            self.device = tensors[0].device
            self.constants.update({k: t.to(self.device) for k, t in self.constants.items()})
        kept = tuple([_kb_get(*place) for _, _, *place in self.kept])
        if tensors:  # an attribute stays where it was when its module is moved
            kept = tuple([t.to(tensors[0].device) for t in kept])
        if _KB_CHANGED_ARGUMENTS:
            _kb_check_overlap([*tensors, *kept])
        flat = not any([_kb_items(v) is not None for v in given])
        outputs = self.program.call([*tensors, *kept], given + kept if flat else None, capturing)
        return self.after(tensors, outputs)

    def after(self, tensors, outputs):
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        _kb_keep(self.kept, tensors, outputs)
        return _kb_returned(outputs)


_KB_PLAIN = _KB_RETURNS is None and not _KB_STATES  # forward returns what the program returns


def _kb_hooks_of_all_modules():
    """The dictionaries of torch.nn.modules.module.register_module_forward_hook and its like."""
    found = vars(_kb_torch.nn.modules.module)
    return tuple([found[name] for name in sorted(found) if name.startswith("_global_") and name.endswith("_hooks")])


class ModelNew(Model):
    """Model with its forward as one program of kernels. Parameters, buffers and their names are Model's."""

    _kb_state = None
    _kb_modes = _KB_MODES

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if _KB_MODES is None:  # the program was made of a module as Model leaves it
            self.__dict__["_kb_modes"] = {name: module.training for name, module in self.named_modules()}

    def __call__(self, *args, **kwargs):
        """As nn.Module's, which takes longer than a small kernel's launch."""
        if _KB_PLAIN and not kwargs and not _kb_is_dynamo_compiling():
            outputs = _kb_call_module(self, self.__dict__, args)
            if outputs is not None:
                return outputs
        return super().__call__(*args, **kwargs)

    def forward(self, *args, **kwargs):
        if _kb_is_dynamo_compiling():
            return self._kb_any(args, args, kwargs)
        given = _kb_in_order(args, kwargs) if kwargs else args
        state = self._kb_state
        if state is not None:
            outputs = state.quick(given) if _KB_PLAIN else state.call(given)
            if outputs is not None:
                return outputs
        return self._kb_any(given, args, kwargs)

    def _kb_any(self, given, args, kwargs):
        """Any call; `given`: its arguments by position."""
        values = _kb_in_order(args, kwargs)
        if _KB_GRADIENTS == "eager" and _kb_wants_gradients(self, values):
            return super().forward(*args, **kwargs)
        if _kb_is_dynamo_compiling() or _kb_extension.is_watched(_kb_tensors(values)):
            return _kb_call_as_operator(self, values)
        state = self._kb_state
        if state is None or not state.program.is_anchored():
            if any([self.get_submodule(name).training != training for name, training in self._kb_modes.items()]):
                raise RuntimeError(_kb_wrong_mode(self))
            state = self.__dict__["_kb_state"] = _KbState(self)
        return state.any_call(given, values)

    def kernel_notes(self):
        """How the program runs differently from how it was measured, one sentence each; filled by the first call."""
        return _kb_other_cudnn() + ([] if self._kb_state is None else self._kb_state.program.notes())

    def __getstate__(self):
        # A copy of the module makes its own program.
        return {k: v for k, v in self.__dict__.items() if k != "_kb_state"}

    def _replicate_for_data_parallel(self):
        replica = super()._replicate_for_data_parallel()
        replica.__dict__.pop("_kb_state", None)
        return replica


_kb_call_module = _kb_extension.module_caller(ModelNew.forward, _kb_hooks_of_all_modules())
ModelNew.forward.__signature__ = _KB_FORWARD
