

def _kb_architecture():
    """The flag that names the architecture, so that PyTorch takes no notice of TORCH_CUDA_ARCH_LIST: the kernels are
    compiled as they were measured, with the instructions of that one architecture (sm_90a). Another device has its own;
    without a device it is the measured one."""
    here = _kb_torch.cuda.get_device_capability() if _kb_torch.cuda.is_available() else _KB_MEASURED_ON
    if here is None:
        return []
    number = f"{here[0]}{here[1]}{'a' if here[0] >= 9 else ''}"
    return [f"-gencode=arch=compute_{number},code=sm_{number}"]


def _kb_build():
    options = dict(name=_KB_NAME, cpp_sources=[_KB_CPP], extra_cflags=["-O2", "-Wno-unused-function"],
                   with_cuda=_KB_NEEDS_CUDA)
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


def _kb_owner(model, name):
    """The submodule that a name like "inner.conv.weight" is in, or None; and the last part of the name."""
    *path, leaf = name.split(".")
    for word in path:
        model = None if model is None else model._modules.get(word)
    return model, leaf


def _kb_find(model, name):
    """The dictionary that holds a parameter or a buffer, and its key."""
    model, leaf = _kb_owner(model, name)
    for held in () if model is None else (model._parameters, model._buffers):
        if isinstance(held.get(leaf), _kb_torch.Tensor):
            return held, leaf
    return None


def _kb_attribute(model, name):
    """A tensor that is a plain attribute, which to() does not move; else None."""
    model, leaf = _kb_owner(model, name)
    value = None if model is None else model.__dict__.get(leaf)
    return value if isinstance(value, _kb_torch.Tensor) else None


def _kb_constant(dtype, shape, text):
    data = bytearray(_kb_base64.b64decode(text))
    return _kb_torch.frombuffer(data, dtype=getattr(_kb_torch, dtype)).reshape(shape)


def _kb_place(model, name):
    """Where a tensor is that forward keeps: the dictionary and the key of a parameter, a buffer or an attribute, and
    the index where that is a tuple or a list."""
    found = _kb_find(model, name)
    if found is not None:
        return *found, None
    owner, leaf = _kb_owner(model, name)
    if owner is not None and leaf in owner.__dict__:
        return owner.__dict__, leaf, None
    row, _, index = name.rpartition(".")
    owner, leaf = _kb_owner(model, row)
    if owner is not None and leaf in owner.__dict__ and index.isdigit():
        return owner.__dict__, leaf, int(index)
    raise RuntimeError(f"{_KB_NAME}: the module has no tensor {name}")


def _kb_set(held, key, index, tensor):
    """A row gets a new one in its place, as forward makes it."""
    if index is not None:
        row = list(held[key])
        row[index] = tensor
        tensor = type(held[key])(row)
    held[key] = tensor


class _KbState:
    """A module's program, and where its weights are."""

    def __init__(self, model):
        self.constants = {}
        self.device = None
        self.mode_matters = any(isinstance(m, _KB_MODE_MATTERS) for m in model.modules())
        self.signature = _kb_inspect.signature(Model.forward)
        self.plain_inputs = None
        weights = []
        for name in _KB_WEIGHTS:
            found = _kb_find(model, name)
            if found is None:
                constant = _kb_attribute(model, name)
                if constant is None and name in _KB_CONSTANTS:
                    constant = _kb_constant(*_KB_CONSTANTS[name])
                if constant is not None:
                    self.constants[name] = constant
                    found = self.constants, name
            if found is None:
                raise RuntimeError(f"{_KB_NAME}: the module has no parameter or buffer {name}")
            weights.append(found)
        self.program = _kb_extension.Program(weights)
        self.quick = self.program.quick_function()
        self.kept = [(kind, output, *_kb_place(model, name)) for name, kind, _, output in _KB_STATES if kind != "argument"]
        self.changed_arguments = [(source, output) for _, kind, source, output in _KB_STATES if kind == "argument"]

    def run(self, args, kwargs):
        """A call of a program that keeps tensors, or whose forward returns them in containers."""
        kept = tuple([held[key] if index is None else held[key][index] for _, _, held, key, index in self.kept])
        outputs = None if kwargs else self.quick(args + kept)
        if outputs is None:
            outputs = self.call(args, kwargs, kept)
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        for (kind, output, *place), tensor in zip(self.kept, kept):
            if kind == "assigned":
                _kb_set(*place, outputs[output])
            else:
                tensor.detach().copy_(outputs[output])
        if self.changed_arguments:
            given = self.tensors(args, kwargs)
            for source, output in self.changed_arguments:
                given[source].copy_(outputs[output])
        return _KB_RETURNS(outputs)

    def call(self, args, kwargs, kept=()):
        """Any call; the next one like it is quick. `kept`: what comes after the arguments."""
        tensors = self.tensors(args, kwargs)
        if self.constants and tensors and tensors[0].device != self.device:
            self.device = tensors[0].device
            self.constants.update({k: t.to(self.device) for k, t in self.constants.items()})
        flat = sum(isinstance(v, _kb_torch.Tensor) for v in args) == len(tensors)
        nested = kwargs or any(isinstance(v, (list, tuple, dict)) for v in args)
        if tensors:  # an attribute stays where it was when its module is moved
            kept = tuple([t.to(tensors[0].device) for t in kept])
        return self.program.call([*tensors, *kept], args + kept if flat and not nested else None)

    def tensors(self, args, kwargs):
        """The tensors among the arguments, in order. All others must have the values that the program was made for."""
        given = self.leaves(args, kwargs)
        plain = [v for v in given if not isinstance(v, _kb_torch.Tensor)]
        if plain and self.plain_inputs is None:
            devices = [_kb_torch.cuda.current_device()] if _kb_torch.cuda.is_initialized() else []
            with _kb_torch.random.fork_rng(devices=devices):
                own = self.leaves(get_inputs(), {})
            self.plain_inputs = [v for v in own if not isinstance(v, _kb_torch.Tensor)]
        if plain != (self.plain_inputs or []):
            raise RuntimeError(f"{_KB_NAME}: this program was made for the arguments {self.plain_inputs} besides its "
                               f"tensors, but was given {plain}")
        return [v for v in given if isinstance(v, _kb_torch.Tensor)]

    def leaves(self, args, kwargs):
        bound = self.signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        return _kb_pytree.tree_leaves(list(bound.arguments.values())[1:])


class ModelNew(Model):
    """Model with its forward as one program of kernels. Parameters, buffers and their names are Model's."""

    _kb_state = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # The program was made of a module as Model leaves it, which may have called eval().
        self.__dict__["_kb_mode"] = self.training

    def forward(self, *args, **kwargs):
        state = self._kb_state
        if state is None:
            state = self.__dict__["_kb_state"] = _KbState(self)
        if state.mode_matters and self.training != self._kb_mode:
            raise RuntimeError(f"{_KB_NAME}: this program was made for a module as Model makes it, in "
                               + ("training mode; call train()" if self._kb_mode else "evaluation mode; call eval()"))
        if _KB_RETURNS is not None:
            return state.run(args, kwargs)
        if not kwargs:
            outputs = state.quick(args)
            if outputs is not None:
                return outputs
        return state.call(args, kwargs)

    def kernel_notes(self):
        """How the program runs differently from how it was measured, one sentence each; filled by the first call."""
        return [] if self._kb_state is None else self._kb_state.program.notes()

    def __getstate__(self):
        # A copy of the module makes its own program.
        return {k: v for k, v in self.__dict__.items() if k != "_kb_state"}
