# SPDX-License-Identifier: Apache-2.0
"""What we rely on in ComfyUI: file, and what must stand in it."""

from __future__ import annotations

CONTRACT: dict[str, tuple[str, ...]] = {
    "main.py": ("comfy_aimdo.control.init(", "comfy_aimdo.control.init_devices(", "execute_prestartup_script()",
                "comfy.memory_management.aimdo_enabled = True"),
    "nodes.py": ("WEB_DIRECTORY", "NODE_CLASS_MAPPINGS"),
    "server.py": ("PromptServer.instance = self", "self.routes = "),
    "execution.py": ("class PromptExecutor", "async def execute_async(", "async def execute(", "reset_cast_buffers()",
                     "def reset(self)", "self.caches = ", "self.outputs = ", "self.objects = "),
    "comfy_execution/caching.py": ("self.cache = {}", "self.subcaches = {}"),
    "comfy/cli_args.py": ("args = ", '"--cpu"'),
    "comfy/model_patcher.py": (
        # Pages of a model.
        "comfy_aimdo.model_vbar.ModelVBAR(", "vbar.prioritize()", "vbar.alloc(", "vbar.free_memory(", "vbar.loaded_size()",
        "class ModelPatcherDynamic(", "def _vbar_get(", "def load(self, device_to=None", "dynamic_pins",
        "model_loaded_weight_memory",
        # Its modules.
        "m._v = ", "_v_signature", "._v_block = ", "get_dynamic_vram__units", '"_lowvram_function"', '"_function"',
        "weight_function", "bias_function", "weight._model_dtype = ", "_comfy_model_dtype",
        # What a patcher has to have for ComfyUI's ledger.
        "self.model = ", "self.load_device = ", "self.offload_device = ", "self.parent = ", "self.clone_base_uuid = ",
        "def model_size(self)", "def loaded_size(self)", "def current_loaded_device(self)", "def model_dtype(self)",
        "def model_patches_to(self, device)", "def model_patches_models(self)", "def get_nested_additional_models(self)",
        "def partially_load(self, device_to, extra_memory=0, force_patch_weights=False)",
        "def partially_unload(self, device_to, memory_to_free=0, force_patch_weights=False)",
        "def detach(self, unpatch_all=True)", "def lowvram_patch_counter(self)", "def is_dynamic(self)",
        "def is_clone(self, other)"),
    "comfy/model_management.py": (
        "def reset_cast_buffers(", "def load_models_gpu(models, memory_required=0,", "def synchronize(",
        "def free_memory(memory_required, device", "def get_free_memory(", "def get_torch_device(", "def get_all_torch_devices(",
        "def unet_offload_device(", "def minimum_inference_memory(", "def extra_reserved_memory(", "def unload_all_models(",
        "def cleanup_models(", "EXTRA_RESERVED_VRAM", "current_loaded_models", "STREAM_CAST_BUFFERS = {}",
        "STREAM_AIMDO_CAST_BUFFERS = {}", "TOTAL_PINNED_MEMORY", "DISABLE_SMART_MEMORY",
        "class LoadedModel", "def model(self)", "self.device = ", "self.currently_used = ", "self.real_model = ",
        "self.model_finalizer = ", "def model_unload(self, memory_to_free=None, unpatch_weights=True)"),
    "comfy/model_base.py": ("class BaseModel(", "def load_model_weights(self, sd, unet_prefix=\"\", assign=False)",
                            "diffusion_model"),
    "comfy/ops.py": ("comfy_aimdo.model_vbar.vbar_fault(s._v)",
                     "comfy_aimdo.model_vbar.vbar_signature_compare(signature, s._v_signature)",
                     "comfy_aimdo.model_vbar.vbar_unpin(s._v)", "comfy_aimdo.torch.aimdo_to_tensor(s._v, device)",
                     "_v_weight", "_v_bias", "cast_buffer.get(", "cast_buffer.size()"),
    "comfy/model_prefetch.py": ("comfy_aimdo.model_vbar.vbar_fault(module._v_block)",
                                "comfy_aimdo.model_vbar.vbar_unpin(module._v_block)",
                                "comfy_aimdo.model_vbar.vbar_signature_compare(signature, graph["),
    "comfy/pinned_memory.py": ("hostbuf.extend(", "hostbuf.truncate(", "comfy_aimdo.torch.hostbuf_to_tensor("),
    "comfy/memory_management.py": ("comfy_aimdo.host_buffer.read_file_to_device(", "hostbuf.read_file_slice(",
                                   "hostbuf.get_raw_address()", "aimdo_enabled", "class TensorFileSlice(", "file_ref: ",
                                   "offset: int", "size: int", "_model_dtype"),
    "comfy/utils.py": ("def load_torch_file(ckpt, safe_load=False, device=None, return_metadata=False)",
                       "comfy_aimdo.model_mmap.ModelMMAP(", "_comfy_tensor_file_slice", "_comfy_tensor_mmap_refs", "DISABLE_MMAP"),
    "comfy/sd.py": ("class CLIP:", "def load_sd(self, sd, full_model=False)", "self.cond_stage_model", "class VAE:",
                    "self.first_stage_model"),
    "comfy/clip_vision.py": ("load_torch_file", "class ClipVisionModel", "def load_sd(self, sd)", "self.model"),
    "comfy/bg_removal_model.py": ("load_torch_file", "class BackgroundRemovalModel", "def load_sd(self, sd)", "self.model"),
}
