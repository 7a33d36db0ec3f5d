//! Turns a profile's text into a [`Profile`], and refuses hardware that cannot exist.

use causeway_firmware::{Reliability, Step};

use super::reader::{FileError, Section, Source};
use super::units::Kind;
use super::{CardSpec, LibrarySpec, NetDmaSpec, Profile, SHIPPED, StepCosts, Waits};
use crate::engine::{Time, duration_at};
use crate::hardware::{
    Channels, HostDmaSpec, HostSpec, IoBusSpec, LinkSpec, MemorySpec, SwitchSpec, WhenFull,
};

/// Most processors of a host, channels of an engine, and the like.
const MOST: u64 = 4_096;
/// Most bytes that a frame takes on a link in addition to its own.
const LONGEST_FRAMING: u64 = 65_536;

impl Profile {
    /// Reads a profile's text; `file` is its name for errors.
    pub fn parse(text: &str, file: &str) -> Result<Self, FileError> {
        profile(text, file)
    }

    /// The profile of this name that comes with the simulator.
    pub fn shipped(name: &str) -> Result<Self, FileError> {
        match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            Some((_, text)) => Self::parse(text, &format!("{name}.toml")),
            None => {
                let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
                Err(FileError {
                    file: name.to_owned(),
                    line: 0,
                    message: format!(
                        "no profile of this name comes with the simulator; there are {}",
                        names.join(", ")
                    ),
                })
            }
        }
    }
}

fn profile(text: &str, file: &str) -> Result<Profile, FileError> {
    let mut root = Source { file, text }.document()?;
    let name = root.text("name")?.value;
    let summary = root.text("summary")?.value;
    let host = root.part("host", host)?;
    let library = root.part("library", |section| library(section, host.clock_hz))?;
    let memory = root.part("memory", memory)?;
    let io_bus = root.part("io_bus", io_bus)?;
    let card = root.part("card", card)?;
    let host_dma = root.part("host_dma", |section| host_dma(section, &io_bus))?;
    let net_dma = root.part("net_dma", net_dma)?;
    let link = root.part("link", link)?;
    let switch = root.part("switch", switch)?;
    root.finish()?;
    Ok(Profile {
        name,
        summary,
        host,
        library,
        memory,
        io_bus,
        card,
        host_dma,
        net_dma,
        link,
        switch,
        topology: None,
    })
}

fn net_dma(section: &mut Section<'_>) -> Result<NetDmaSpec, FileError> {
    Ok(NetDmaSpec {
        send_startup: section.quantity("send_startup", Kind::Time)?.value,
        receive_startup: section.quantity("receive_startup", Kind::Time)?.value,
    })
}

fn switch(section: &mut Section<'_>) -> Result<SwitchSpec, FileError> {
    Ok(SwitchSpec {
        latency: section.quantity("latency", Kind::Time)?.value,
        buffer_bytes: section.positive("buffer", Kind::Size)?.value,
        when_full: section.word("when_full", WhenFull::WORDS)?.value,
        credit_time: 0,
    })
}

fn link(section: &mut Section<'_>) -> Result<LinkSpec, FileError> {
    let framing = section.quantity("framing", Kind::Size)?;
    if framing.value > LONGEST_FRAMING {
        let wrong = format!("`link.framing` must be at most {LONGEST_FRAMING} B");
        return Err(section.error(&framing.span, wrong));
    }
    Ok(LinkSpec {
        bytes_per_second: section.positive("rate", Kind::Rate)?.value,
        latency: section.quantity("latency", Kind::Time)?.value,
        framing_bytes: framing.value,
    })
}

/// Cycles of the section's clock, as a time.
fn cycles(section: &mut Section<'_>, key: &str, clock_hz: u64) -> Result<Time, FileError> {
    Ok(duration_at(
        section.quantity(key, Kind::Cycles)?.value,
        clock_hz,
    ))
}

fn host(section: &mut Section<'_>) -> Result<HostSpec, FileError> {
    let clock_hz = section.positive("clock", Kind::Frequency)?.value;
    Ok(HostSpec {
        clock_hz,
        processors: section.count("processors", 1, MOST)?.value,
        system_call: section.quantity("system_call", Kind::Time)?.value,
        context_switch: section.quantity("context_switch", Kind::Time)?.value,
        interrupt: section.quantity("interrupt", Kind::Time)?.value,
        card_access: cycles(section, "card_access", clock_hz)?,
    })
}

fn library(section: &mut Section<'_>, clock_hz: u64) -> Result<LibrarySpec, FileError> {
    Ok(LibrarySpec {
        waits: Waits::default(),
        reliability: Reliability::default(),
        post: cycles(section, "post", clock_hz)?,
        poll: cycles(section, "poll", clock_hz)?,
        complete: cycles(section, "complete", clock_hz)?,
    })
}

fn memory(section: &mut Section<'_>) -> Result<MemorySpec, FileError> {
    section.without_effect(&["cache_access", "line_access", "line"])?;
    let page = section.positive("page", Kind::Size)?;
    if !page.value.is_power_of_two() || !(512..=1 << 20).contains(&page.value) {
        return Err(section.error(
            &page.span,
            "a page must have a power of two of bytes, from 512 B to 1 MiB",
        ));
    }
    Ok(MemorySpec {
        page_bytes: page.value,
        bytes_per_second: section.positive("rate", Kind::Rate)?.value,
    })
}

fn io_bus(section: &mut Section<'_>) -> Result<IoBusSpec, FileError> {
    Ok(IoBusSpec {
        clock_hz: section.positive("clock", Kind::Frequency)?.value,
        width_bytes: section.positive("width", Kind::Size)?.value,
        arbitration_cycles: section.quantity("arbitration", Kind::Cycles)?.value,
        address_cycles: section.quantity("address", Kind::Cycles)?.value,
        retry_cycles: section.quantity("retry", Kind::Cycles)?.value,
        burst_bytes: section.positive("burst", Kind::Size)?.value,
        bridge_latency: section.quantity("bridge_latency", Kind::Time)?.value,
    })
}

fn card(section: &mut Section<'_>) -> Result<CardSpec, FileError> {
    let clock_hz = section.positive("clock", Kind::Frequency)?.value;
    let memory_bytes = section.limit("memory", Kind::Size)?;
    let idle_loop_cycles = section.quantity("idle_loop", Kind::Cycles)?.value;
    let sequential_idle_loop_cycles = section
        .quantity("sequential_idle_loop", Kind::Cycles)?
        .value;
    let costs = section.part("steps", |steps| {
        let cost = |step: Step| Ok(steps.quantity(step.name(), Kind::Cycles)?.value);
        Step::ALL
            .into_iter()
            .map(cost)
            .collect::<Result<Vec<u64>, FileError>>()
    })?;
    Ok(CardSpec {
        clock_hz,
        memory_bytes,
        buffers: None,
        idle_loop_cycles,
        sequential_idle_loop_cycles,
        steps: StepCosts::new(|step| costs.get(step as usize).copied().unwrap_or(0)),
    })
}

fn host_dma(section: &mut Section<'_>, bus: &IoBusSpec) -> Result<HostDmaSpec, FileError> {
    let rate = section.positive("rate", Kind::Rate)?;
    let peak = bus.peak_bytes_per_second();
    if rate.value > peak {
        let message = format!(
            "the host DMA engine moves {} B/s, more than its bus, which moves {peak} B/s at most \
             (io_bus.clock times io_bus.width)",
            rate.value
        );
        return Err(section.error(&rate.span, message));
    }
    let number = section.count("channels", 1, MOST)?.value;
    let one_each_way = section.word("channel_use", &[("any", false), ("one each way", true)])?;
    if one_each_way.value && number != 2 {
        return Err(section.error(
            &one_each_way.span,
            "`host_dma.channel_use` can be \"one each way\" only with 2 channels",
        ));
    }
    section.without_effect(&["queue_length"])?;
    Ok(HostDmaSpec {
        startup: section.quantity("startup", Kind::Time)?.value,
        bytes_per_second: rate.value,
        channels: match one_each_way.value {
            true => Channels::OneEachWay,
            false => Channels::Any(number),
        },
    })
}
