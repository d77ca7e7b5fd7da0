# Serves the samples of a class of the user's to the dataset plugin `python`, which starts this with its text as an argument.
#
# Requests and answers are JSON behind their length, on the socket that is descriptor 3. Samples go into the memory that is descriptor 4:
# first the number of the sample being made and of its split, which show where a process that died or hangs was, then one array for each
# field of the samples that were asked for.
import ctypes
import hashlib
import importlib.util
import json
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import traceback

CHANNEL, MEMORY, HEADER = 3, 4, 16
PR_SET_PDEATHSIG = 1


class Mistake(Exception):
    pass


def describe_type(name, array):
    """The type that a field has in a batch."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if name == "input" and array.dtype == "uint8":
        raise Mistake("the input is uint8: give float32, as torchvision's ToTensor does, or int64 for numbers of symbols")
    if kind == "b":
        return "bool" if name not in ("input", "target") else "int64"
    if kind in "iu":
        return "int64"
    if kind == "f" and size <= 8:
        return "float32"
    raise Mistake(f"{name} is of the type {array.dtype}, expected numbers")


def seed_generators(numpy, *key):
    """What the sample draws depends on nothing but its number and the epoch, whichever process makes it."""
    seed = int.from_bytes(hashlib.sha256(struct.pack(f"<{len(key)}Q", *key)).digest()[:8], "little")
    random.seed(seed)
    numpy.random.seed(seed & 0xFFFFFFFF)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


class Samples:
    def __init__(self, plan):
        import numpy

        self.numpy = numpy
        folder, self.file = os.path.split(plan["file"])
        os.chdir(folder)
        sys.path.insert(0, folder)
        name = os.path.splitext(self.file)[0]
        spec = importlib.util.spec_from_file_location(name, plan["file"])
        if spec is None:
            raise Mistake("expected a Python file, whose name ends in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        if not hasattr(module, plan["class"]):
            raise Mistake(f"it has no class {plan['class']}")
        make = getattr(module, plan["class"])
        self.names = plan["splits"]
        self.splits = [make(split, **plan["arguments"]) for split in self.names]
        self.fields = self.memory = None

    def arrays_of(self, split, index, seed=0, epoch=0):
        """The fields of a sample by name."""
        seed_generators(self.numpy, seed, epoch, split, index)
        sample = self.splits[split][index]
        if isinstance(sample, (tuple, list)) and len(sample) == 2:
            sample = {"input": sample[0], "target": sample[1]}
        if not isinstance(sample, dict) or not {"input", "target"} <= sample.keys():
            raise Mistake("expected (input, target), or a dict with these and what else there is")
        return {name: self.numpy.asarray(value) for name, value in sample.items()}

    def describe(self, _request):
        sizes = {name: len(samples) for name, samples in zip(self.names, self.splits)}
        first = next((i for i, samples in enumerate(self.splits) if len(samples)), None)
        if first is None:
            raise Mistake("it has no sample")
        self.fields = {name: {"type": describe_type(name, array), "shape": list(array.shape)}
                       for name, array in self.arrays_of(first, 0).items()}
        classes = getattr(self.splits[0], "classes", None)
        if isinstance(classes, (bool, str, float)):
            raise Mistake(f"classes is {classes!r}, expected how many there are, or a list of their names")
        names = [] if classes is None or isinstance(classes, int) else [str(name) for name in classes]
        return {"sizes": sizes, "fields": self.fields, "class_names": names, "classes": classes if isinstance(classes, int) else len(names)}

    def labels(self, request):
        """The class of each sample, where the object knows them: torchvision's attribute `targets`."""
        targets = getattr(self.splits[request["split"]], "targets", None)
        return {"labels": None if targets is None else self.numpy.asarray(targets).astype("int64").tolist()}

    def fetch(self, request):
        indices, bytes_of_all = request["indices"], request["bytes"]
        if self.memory is None or len(self.memory) < bytes_of_all:
            self.memory = mmap.mmap(MEMORY, bytes_of_all)
        places, at = {}, HEADER
        for name, field in request["fields"].items():
            shape = (len(indices), *field["shape"])
            count = 1
            for extent in shape:
                count *= extent
            places[name] = self.numpy.frombuffer(self.memory, field["type"], count, at).reshape(shape)
            at += places[name].nbytes
        for row, index in enumerate(indices):
            self.memory[:HEADER] = struct.pack("<qq", index, request["split"])
            arrays = self.arrays_of(request["split"], index, request["seed"], request["epoch"])
            if arrays.keys() != places.keys():
                raise Mistake(f"it has {', '.join(arrays)}, and the first sample {', '.join(places)}")
            for name, array in arrays.items():
                field = request["fields"][name]
                if list(array.shape) != field["shape"] or describe_type(name, array) != field["type"]:
                    raise Mistake(f"{name} is {list(array.shape)} {array.dtype}, and that of the first sample "
                                  f"{field['shape']} {field['type']}")
                places[name][row] = array
        return {}


def where(file):
    """The user's own line that was running when the exception came."""
    lines = [frame for frame in traceback.extract_tb(sys.exc_info()[2]) if frame.filename != "<string>"]
    ours = [frame for frame in lines if os.path.basename(frame.filename) == file] or lines
    return f"{os.path.basename(ours[-1].filename)}:{ours[-1].lineno}: " if ours else ""


def die_with_the_run():
    """The kernel kills this process when the one that started it ends, in whatever way. If that has ended already, its channel hangs up."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(CHANNEL, 0)
    if poll.poll(0):
        os._exit(0)


def close_what_is_not_ours():
    """Connections of the run, which other machines would wait on if they stayed open here."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > MEMORY:
            try:
                os.close(int(name))
            except OSError:
                pass  # that of the list


def main():
    die_with_the_run()
    close_what_is_not_ours()
    for number in (signal.SIGINT, signal.SIGTERM):  # the run decides when it ends, and then the channel closes
        signal.signal(number, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # there are several processes
        os.environ[name] = "1"
    channel = socket.socket(fileno=CHANNEL)
    stream = channel.makefile("rwb")
    samples, file = None, ""
    while header := stream.read(4):
        request = json.loads(stream.read(struct.unpack("<I", header)[0]))
        try:
            if request["do"] == "open":
                file = os.path.basename(request["file"])
                samples = Samples(request)
                answer = {}
            else:
                answer = getattr(samples, request["do"])(request)
        except Mistake as error:
            answer = {"error": str(error)}
        except ModuleNotFoundError as error:
            answer = {"error": f"{where(file)}{error}; is it installed for {sys.executable}? dataset.python names another"}
        except BaseException as error:  # a sample of the user's may raise anything, and all of it is an answer
            answer = {"error": f"{where(file)}{type(error).__name__}: {error}"}
        text = json.dumps(answer).encode()
        stream.write(struct.pack("<I", len(text)) + text)
        stream.flush()


main()
