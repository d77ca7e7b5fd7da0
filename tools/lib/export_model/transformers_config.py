# SPDX-License-Identifier: MIT
"""What `ddprun export --format transformers` writes of a network of transformers besides its weights. It stands in the archive's
ddprun.json, so that no Python is needed then:

    "transformers": {"config": the text of config.json, "generation": that of generation_config.json, or null,
                     "tied": names of the state_dict() whose numbers another one has}"""

import copy
import sys


def about_transformers(module):
    """Returns nothing for another module, or one whose code from_pretrained() would not find."""
    base = getattr(sys.modules.get("transformers"), "PreTrainedModel", None)
    if base is None or not isinstance(module, base) or not type(module).__module__.startswith("transformers."):
        return {}
    config = copy.deepcopy(module.config)
    config.architectures = [type(module).__name__]
    config.dtype = str(module.dtype).removeprefix("torch.")
    if getattr(config, "use_cache", None) is False:
        config.use_cache = True  # training has no use for it, so that tools/export_model turns it off; generating text has
    generation = getattr(module, "generation_config", None)
    named = {name for name, _ in module.named_parameters()} | {name for name, _ in module.named_buffers()}
    about = {
        "config": config.to_json_string(use_diff=True),
        "generation": generation.to_json_string(use_diff=True) if generation is not None else None,
        "tied": sorted(name for name in module.state_dict() if name not in named),
    }
    return {"transformers": about}
