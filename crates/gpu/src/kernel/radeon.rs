//! Every shader compiled for Radeon GPUs, which need not be there: Mesa's driver RADV, 22 to 25, compiles for a family
//! that it is given (`RADV_FORCE_FAMILY`), runs nothing, and tells what became of a shader. wgpu cannot open such a
//! device, which has no semaphores, so that shaders are translated here as wgpu does it.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;

use ash::{ext, khr, vk};
use naga::back::{pipeline_constants, spv};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};

use super::tests::all;
use super::{Kernel, Store, bindings};
use crate::device::{CHECKS, UNBOUNDED};
use crate::{Cooperative, Variant};

/// Where Linux keeps what tells of the driver.
const DRIVER: &str = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json";

/// What is said where the driver is another one, or Mesa 26, which learns of hardware only by a shim of the system.
const NONE: &str = "there is no null hardware";

/// What is compiled with each test: what a model's time goes to, on the oldest and the newest that Mesa 22.3 knows.
const FAMILIES: [&str; 2] = ["vega10", "gfx1100"];

/// What the driver tells, and how a table names it.
const TOLD: [(&str, &str); 10] = [
    ("VGPRs", "vgprs"),
    ("Spilled VGPRs", "spilled"),
    ("Scratch size", "scratch"),
    ("LDS size", "lds"),
    ("Subgroups per SIMD", "waves"),
    ("Code size", "code"),
    ("Instructions", "instr"),
    ("Branches", "branch"),
    ("Latency", "latency"),
    ("Inverse Throughput", "cycles"),
];

/// Branches of a product with one row of inputs: its loop over columns, and one for each sum. With loops over its four rows of
/// the matrix that are not unrolled, there were three times as many, and one row's weights were waited for before the next.
const BRANCHES: u64 = 16;

/// An opened device without hardware.
struct Radeon {
    // Drivers go with the entry.
    _entry: ash::Entry,
    device: ash::Device,
    statistics: khr::pipeline_executable_properties::Device,
    name: String,
    robust: bool,
    cooperative: Option<Cooperative>,
}

impl Radeon {
    fn open() -> Result<Radeon, vk::Result> {
        let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        // SAFETY: what calls read lives until they return, the structures are made by ash, what is asked for is what the driver
        // says that it has, and nothing is destroyed before the process ends.
        unsafe {
            let entry = ash::Entry::load().expect("a Vulkan loader");
            let instance = entry.create_instance(&vk::InstanceCreateInfo::default().application_info(&app), None)?;
            let physical = *instance.enumerate_physical_devices()?.first().expect("an adapter");
            let properties = instance.get_physical_device_properties(physical);
            let extensions = instance.enumerate_device_extension_properties(physical)?;
            let has = |name| extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name));
            let wanted =
                [ext::robustness2::NAME, khr::pipeline_executable_properties::NAME, khr::cooperative_matrix::NAME];
            let names: Vec<_> = wanted.into_iter().filter(|&name| has(name)).map(|name| name.as_ptr()).collect();
            let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
            let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
            let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
            let mut robustness = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
            let mut statistics = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
            let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
            let mut features = vk::PhysicalDeviceFeatures2::default()
                .push_next(&mut v11)
                .push_next(&mut v12)
                .push_next(&mut v13)
                .push_next(&mut robustness)
                .push_next(&mut statistics);
            if has(khr::cooperative_matrix::NAME) {
                features = features.push_next(&mut matrices);
            }
            instance.get_physical_device_features2(physical, &mut features);
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queue).enabled_extension_names(&names);
            let device = instance.create_device(physical, &info.push_next(&mut features), None)?;
            let name = properties.device_name_as_c_str().map_or("?".into(), |name| name.to_string_lossy().into_owned());
            let cooperative = (matrices.cooperative_matrix == vk::TRUE).then_some(Cooperative {
                side: 16,
                subgroup: 64,
                memory: 64 << 10,
            });
            Ok(Radeon {
                statistics: khr::pipeline_executable_properties::Device::new(&instance, &device),
                _entry: entry,
                device,
                name,
                robust: robustness.robust_buffer_access2 == vk::TRUE,
                cooperative,
            })
        }
    }

    /// What the driver tells of a shader.
    fn compile(&self, source: &str) -> Result<HashMap<String, u64>, vk::Result> {
        let words = self.translated(source);
        let storage = bindings(source).into_iter().map(|(binding, _)| (binding, vk::DescriptorType::STORAGE_BUFFER));
        let buffers = [(0, vk::DescriptorType::UNIFORM_BUFFER)].into_iter().chain(storage).map(|(binding, ty)| {
            let layout = vk::DescriptorSetLayoutBinding::default().binding(binding).descriptor_type(ty);
            layout.descriptor_count(1).stage_flags(vk::ShaderStageFlags::COMPUTE)
        });
        let buffers: Vec<_> = buffers.collect();
        let device = &self.device;
        // SAFETY: as above; the code is naga's, and what is destroyed is not used after that.
        unsafe {
            let module = device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&words), None)?;
            let set = vk::DescriptorSetLayoutCreateInfo::default().bindings(&buffers);
            let sets = [device.create_descriptor_set_layout(&set, None)?];
            let layout =
                device.create_pipeline_layout(&vk::PipelineLayoutCreateInfo::default().set_layouts(&sets), None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .flags(vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE)
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let info = [info.flags(vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR)];
            let made = device.create_compute_pipelines(vk::PipelineCache::null(), &info, None);
            let pipeline = made.map_err(|(_, error)| error)?[0];
            let executable = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
            let told = self.statistics.get_pipeline_executable_statistics(&executable)?;
            device.destroy_pipeline(pipeline, None);
            device.destroy_pipeline_layout(layout, None);
            device.destroy_descriptor_set_layout(sets[0], None);
            device.destroy_shader_module(module, None);
            let name =
                |s: &vk::PipelineExecutableStatisticKHR<'_>| s.name_as_c_str().map(|n| n.to_string_lossy().into());
            Ok(told.iter().filter_map(|s| Some((name(s).ok()?, s.value.u64))).collect())
        }
    }

    /// SPIR-V as wgpu 30 has it made on Vulkan.
    fn translated(&self, source: &str) -> Vec<u32> {
        let module = naga::front::wgsl::parse_str(&format!("{source}{UNBOUNDED}")).expect("it is valid");
        let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect("it is valid");
        let options = spv::Options {
            lang_version: (1, 6),
            flags: spv::WriterFlags::LABEL_VARYINGS | spv::WriterFlags::FORCE_POINT_SIZE,
            bounds_check_policies: BoundsCheckPolicies {
                index: BoundsCheckPolicy::Restrict,
                buffer: if self.robust { BoundsCheckPolicy::Unchecked } else { BoundsCheckPolicy::Restrict },
                ..BoundsCheckPolicies::default()
            },
            zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::Native,
            // `create_shader_module` of wgpu-hal does not ask for the checks of a module without constants to override.
            force_loop_bounding: CHECKS.force_loop_bounding || module.overrides.is_empty(),
            ..spv::Options::default()
        };
        let main = Some((naga::ShaderStage::Compute, "main"));
        let constants = naga::back::PipelineConstants::default();
        let (module, info) =
            pipeline_constants::process_overrides(&module, &info, main, &constants).expect("there are none");
        let entry = spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: "main".into() };
        spv::write_vec(&module, &info, &options, Some(&entry)).expect("it can be translated")
    }
}

/// What a model's time goes to.
fn is_hot(kernel: Kernel) -> bool {
    match kernel {
        Kernel::MatVec { rows, store, .. } => [1, 8].contains(&rows) && store == Store::Set,
        Kernel::MatMul { store, .. } => store == Store::Set,
        Kernel::ExpertVec { .. } | Kernel::ExpertMul { .. } | Kernel::HeadVec { .. } | Kernel::HeadMul { .. } => false,
        Kernel::Embed(_) | Kernel::AddPositions(_) | Kernel::Unpack(_) | Kernel::Unary(_) | Kernel::Recur(_) => false,
        _ => true,
    }
}

/// For `cargo xtask radeon`, and for the test below: one family, of which the environment tells.
#[test]
#[ignore = "needs a driver that is told what to compile for"]
fn table() {
    let wanted = std::env::var("CANDOR_KERNELS").unwrap_or_default();
    let radeon = Radeon::open().unwrap_or_else(|error| panic!("{NONE}: {error}"));
    assert!(radeon.name.starts_with("Null hardware"), "{NONE}, but {}", radeon.name);
    let named: Vec<_> = TOLD.iter().map(|(_, name)| format!("{name:>8}")).collect();
    println!("{}\n{}", radeon.name, named.concat());
    let (mut seen, mut faults) = (HashSet::new(), Vec::new());
    for subgroups in [true, false] {
        let variant = Variant { subgroups, int8_dot: true, f16: true, cooperative: radeon.cooperative };
        for kernel in all() {
            let label = format!("{kernel:?}{}", if subgroups { "" } else { ", plain" });
            let is_wanted = if wanted == "hot" { subgroups && is_hot(kernel) } else { label.contains(&wanted) };
            let missing = kernel.is_cooperative() && radeon.cooperative.is_none();
            if !is_wanted || missing || !seen.insert(kernel.source(variant)) {
                continue;
            }
            let told = radeon.compile(&kernel.source(variant)).unwrap_or_else(|error| panic!("{label}: {error}"));
            let values = TOLD.map(|(name, _)| *told.get(name).unwrap_or_else(|| panic!("no {name}: {told:?}")));
            let row: Vec<_> = values.iter().map(|value| format!("{value:>8}")).collect();
            println!("{}  {label}", row.concat());
            let [_, spilled, scratch, _, _, _, _, branches, ..] = values;
            let is_short = matches!(kernel, Kernel::MatVec { rows: 1, .. });
            if spilled + scratch > 0 || (is_short && branches > BRANCHES) {
                faults.push(format!(
                    "{label}: {spilled} registers spilled, {scratch} bytes of scratch, {branches} branches"
                ));
            }
        }
    }
    assert!(!seen.is_empty(), "no kernel's name has {wanted:?} in it");
    assert!(faults.is_empty(), "{}:\n{}", radeon.name, faults.join("\n"));
}

#[test]
fn what_time_goes_to_keeps_to_registers_on_radeons() {
    if !Path::new(DRIVER).exists() {
        eprintln!("skipped: there is no {DRIVER}");
        return;
    }
    for family in FAMILIES {
        let mut command = Command::new(std::env::current_exe().expect("this test's own program"));
        command.args(["kernel::radeon::table", "--exact", "--ignored", "--nocapture"]);
        command.envs([("RADV_FORCE_FAMILY", family), ("CANDOR_KERNELS", "hot"), ("MESA_SHADER_CACHE_DISABLE", "1")]);
        command.envs([("VK_DRIVER_FILES", DRIVER), ("VK_ICD_FILENAMES", DRIVER)]);
        let done = command.output().expect("it starts");
        let (out, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        if error.contains(NONE) {
            eprintln!("skipped: {error}");
            return;
        }
        assert!(done.status.success(), "{family}: {out}{error}");
        assert!(out.contains("MatVec"), "{family}: nothing was compiled: {out}{error}");
    }
}
