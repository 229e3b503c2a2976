//! From a graph to tasks: makes the edges, deals out splits and vnodes, opens every sink.

use super::{Assigned, Base, identity, sink_ctx, two_phase};
use crate::bad::BadRows;
use crate::chain::ChainPlan;
use crate::coordinator::{SourceHandle, SourceTaskHandle};
use crate::edge::{EdgeReceiver, EdgeSender, edge};
use crate::exchange::Exchange;
use crate::graph::{BadRoute, EdgeId, EdgeSpec, Node, NodeKind, OperatorNode, Routing, SinkNode, SourceNode};
use crate::input::{InEdge, Inputs};
use crate::job::{Job, JobControl};
use crate::metrics::Meters;
use crate::output::{OutEdge, Outputs, Router};
use crate::planted::Planted;
use crate::signal::Signal;
use crate::spill::{Member, Place, Pool};
use crate::task::operator::{OperatorParts, OperatorTask, Restore};
use crate::task::sink::{SinkParts, SinkTask};
use crate::task::source::{SourceParts, SourceTask};
use crate::task::{Command, Report, Reports, Seat, Task};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{AnySink, BarrierAcker, Error, OperatorCtx, PollRequest, Result, ResultExt, SourceCtx, VnodeRange};
use tidegate_epochs::{AtEnd, read_pieces};

/// All parts of an attempt.
pub(super) struct Built {
    pub(super) tasks: Vec<(Seat, Box<dyn Task>)>,
    pub(super) sources: Vec<SourceHandle>,
    pub(super) reports: Receiver<(usize, Report)>,
}

/// The two halves of every edge, by node and task.
struct Wiring {
    outputs: Vec<Vec<Vec<(EdgeId, OutEdge)>>>,
    inputs: Vec<Vec<Vec<InEdge>>>,
}

pub(super) fn build(
    job: &Job,
    control: &JobControl,
    base: &Base,
    assigned: &BTreeMap<String, Assigned>,
    meters: &Arc<Meters>,
) -> Result<Built> {
    let is_operator = |node: &&Node| matches!(node.kind, NodeKind::Operator(_));
    let operators: usize = job.graph.nodes.iter().filter(is_operator).map(|node| node.parallelism).sum();
    let pool = job.config.memory.as_ref().map(|memory| Pool::new(memory.bytes, operators));
    let mut members = 0;
    let (sender, reports) = unbounded();
    let reporter = Reports::new(sender, control.signal().clone());
    let mut seats: Vec<Vec<Seat>> = Vec::new();
    let mut number = 0;
    for node in &job.graph.nodes {
        let of_node = (0..node.parallelism).map(|task| Seat {
            number: number + task,
            name: format!("{} `{}` task {task}", kind(node), node.id),
            node: node.id.clone(),
            task,
            signal: Signal::new(),
            reports: reporter.clone(),
            clock: Arc::clone(&job.config.clock),
        });
        seats.push(of_node.collect());
        number += node.parallelism;
    }
    let mut wiring = wire(job, &seats, meters)?;
    let mut tasks: Vec<(Seat, Box<dyn Task>)> = Vec::new();
    let mut sources = Vec::new();
    for (at, node) in job.graph.nodes.iter().enumerate() {
        let mut handle = match &node.kind {
            NodeKind::Source(source) => Some(SourceHandle::new(node.id.clone(), source, of_source(assigned, node)?)),
            NodeKind::Operator(_) | NodeKind::Sink(_) => None,
        };
        for seat in &seats[at] {
            let edges = std::mem::take(&mut wiring.outputs[at][seat.task]);
            let index: BTreeMap<EdgeId, usize> = edges.iter().enumerate().map(|(index, (id, _))| (*id, index)).collect();
            let bad = BadRows::new(match node.bad {
                BadRoute::Nowhere => None,
                BadRoute::Edge(edge) => index.get(&edge).copied(),
            });
            let maker = Maker {
                job,
                base,
                node,
                seat,
                chains: ChainPlan {
                    main: node.main.clone(),
                    late: node.late.clone(),
                    task: seat.task,
                    tasks: node.parallelism,
                    run: identity(job, &base.manifest.run_id, base.manifest.generation, &node.id),
                    edges: index,
                    counters: meters.nodes[at].2.steps.iter().map(|(_, counters)| counters.clone()).collect(),
                },
                bad,
                outputs: Outputs::new(edges.into_iter().map(|(_, edge)| edge).collect(), job.config.batch_rows, job.config.batch_bytes)
                    .gathering((GATHERED / job.config.crowd(node.parallelism)).max(1))
                    .planting(job.config.planted()),
                inputs: Inputs::new(std::mem::take(&mut wiring.inputs[at][seat.task])).planting(job.config.planted()),
                meters: Arc::clone(&meters.nodes[at].2),
            };
            let task: Box<dyn Task> = match &node.kind {
                NodeKind::Source(source) => {
                    let (commands, receiver) = unbounded();
                    let made = maker.source(source, of_source(assigned, node)?, &commands, receiver);
                    if let Some(handle) = &mut handle {
                        handle.add(SourceTaskHandle { commands, signal: seat.signal.clone() }, made.split_ids());
                    }
                    Box::new(made)
                }
                NodeKind::Operator(operator) => {
                    let member = pool.as_ref().map(|pool| pool.member(members));
                    members += 1;
                    Box::new(maker.operator(operator, member))
                }
                NodeKind::Sink(sink) => Box::new(maker.sink(sink).context(|| format!("sink `{}`: opening it", sink.dataset))?),
            };
            tasks.push((seat.clone(), task));
        }
        sources.extend(handle);
    }
    Ok(Built { tasks, sources, reports })
}

/// Batches that a task gathers over all targets of an edge.
const GATHERED: usize = 4;

fn of_source<'a>(assigned: &'a BTreeMap<String, Assigned>, node: &Node) -> Result<&'a Assigned> {
    assigned.get(&node.id).ok_or_else(|| Error::internal(format!("source `{}` was not discovered", node.id)))
}

fn kind(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Source(_) => "source",
        NodeKind::Operator(_) => "operator",
        NodeKind::Sink(_) => "sink",
    }
}

fn wire(job: &Job, seats: &[Vec<Seat>], meters: &Meters) -> Result<Wiring> {
    let graph = &job.graph;
    let at = |id: &str| graph.nodes.iter().position(|node| node.id == id).ok_or_else(|| Error::internal(format!("no node `{id}`")));
    let pairs = |edge: &EdgeSpec, from: usize| if edge.routing == Routing::Forward { 1 } else { graph.nodes[from].parallelism };
    let mut fan_in = vec![0; graph.nodes.len()];
    for edge in &graph.edges {
        fan_in[at(&edge.to)?] += pairs(edge, at(&edge.from)?);
    }
    let per_task = |node: &Node| (0..node.parallelism).map(|_| Vec::new()).collect::<Vec<_>>();
    let mut outputs: Vec<Vec<Vec<(EdgeId, OutEdge)>>> = graph.nodes.iter().map(per_task).collect();
    let mut inputs: Vec<Vec<Vec<InEdge>>> = graph.nodes.iter().map(|node| (0..node.parallelism).map(|_| Vec::new()).collect()).collect();
    for (index, spec) in graph.edges.iter().enumerate() {
        let (from, to) = (at(&spec.from)?, at(&spec.to)?);
        let counters = &meters.edges[index].1;
        let capacity = job.config.edge.divided(job.config.crowd(graph.nodes[to].parallelism)).divided(fan_in[to]);
        for producer in 0..graph.nodes[from].parallelism {
            let targets: Vec<usize> =
                if spec.routing == Routing::Forward { vec![producer] } else { (0..graph.nodes[to].parallelism).collect() };
            let mut senders: Vec<EdgeSender> = Vec::new();
            for consumer in &targets {
                let (sender, receiver): (EdgeSender, EdgeReceiver) =
                    edge(capacity, seats[from][producer].signal.clone(), seats[to][*consumer].signal.clone());
                senders.push(sender);
                inputs[to][*consumer].push(InEdge { receiver, input: spec.input, received: counters.received.clone() });
            }
            let router = match &spec.routing {
                _ if targets.len() == 1 => Router::One,
                Routing::Forward => Router::One,
                Routing::Hash(columns) => Router::Hash(Exchange::new(columns.clone(), targets.len(), job.config.vnodes)),
                // Producers begin at different targets, so that few batches spread as well.
                Routing::RoundRobin => Router::RoundRobin(producer),
                Routing::Broadcast => Router::Broadcast,
            };
            outputs[from][producer].push((spec.id, OutEdge::new(router, senders, counters.sent.clone())));
        }
    }
    Ok(Wiring { outputs, inputs })
}

/// What one task is made of, before its kind is looked at.
struct Maker<'a> {
    job: &'a Job,
    base: &'a Base,
    node: &'a Node,
    seat: &'a Seat,
    chains: ChainPlan,
    bad: BadRows,
    outputs: Outputs,
    inputs: Inputs,
    meters: Arc<crate::metrics::NodeMeters>,
}

impl Maker<'_> {
    fn source(mut self, source: &SourceNode, assigned: &Assigned, commands: &Sender<Command>, receiver: Receiver<Command>) -> SourceTask {
        let (job, seat) = (self.job, self.seat);
        let manifest = &self.base.manifest;
        // Round robin over the tasks; a start with another number of tasks deals anew.
        let own = || assigned.splits.iter().skip(seat.task).step_by(self.node.parallelism);
        let ctx = SourceCtx::new(identity(job, &manifest.run_id, manifest.generation, &source.dataset))
            .with_task(seat.task, self.node.parallelism)
            .with_start(own().map(|(split, _)| split.clone()).collect())
            .with_restoring(self.base.restoring)
            .with_time_column(source.time.as_ref().map(|time| Arc::clone(&time.column)))
            .with_request(source.request.clone())
            .with_meters(self.meters.outside[seat.task].clone())
            .with_clock(Arc::clone(&job.config.clock))
            .with_wake(seat.signal.wake());
        if assigned.complete {
            // Before the start, so that it is known when the first split ends.
            let _ = commands.send(Command::Complete);
        }
        self.chains.run.operator = source.dataset.clone();
        SourceTask::new(SourceParts {
            seat: seat.clone(),
            node: source.clone(),
            ctx,
            seen: own().filter_map(|(split, seen)| Some((split.id.clone(), (*seen)?))).collect(),
            commands: receiver,
            chains: self.chains,
            bad: self.bad,
            outputs: self.outputs,
            meters: self.meters,
            schema: source.output_schema(),
            poll: PollRequest { max_rows: job.config.batch_rows, max_bytes: job.config.batch_bytes, wait: Duration::ZERO },
            now: manifest.now,
            suspends: job.config.at_end == AtEnd::Suspend,
            max_epoch_delay: job.config.max_epoch_delay,
            planted: job.config.planted(),
        })
    }

    /// Where the task may put state aside: nowhere if nothing says which vnode a row belongs to.
    fn place(&self, operator: &OperatorNode) -> Option<Place> {
        let folder = self.job.config.memory.as_ref()?.spill.clone()?;
        let of_input = |input: usize| {
            let mut edges = self.job.graph.edges.iter().filter(|edge| edge.to == self.node.id && edge.input == input);
            let Routing::Hash(columns) = &edges.next()?.routing else { return None };
            edges.all(|edge| edge.routing == Routing::Hash(columns.clone())).then(|| columns.clone())
        };
        let keys = (0..operator.inputs).map(of_input).collect::<Option<_>>()?;
        Some(Place { folder, keys, aside: self.meters.spilled_bytes[self.seat.task].clone(), spills: self.meters.spills.clone() })
    }

    fn operator(self, operator: &OperatorNode, member: Option<Member>) -> OperatorTask {
        let (job, seat) = (self.job, self.seat);
        let memory = member.map(|member| (member, self.place(operator)));
        let manifest = &self.base.manifest;
        let ctx = OperatorCtx::new(identity(job, &manifest.run_id, manifest.generation, &operator.stage))
            .with_task(seat.task, self.node.parallelism, job.config.vnodes)
            .with_batch_rows(job.config.batch_rows)
            .with_clock(Arc::clone(&job.config.clock))
            .with_state_bytes(self.meters.state_bytes[seat.task].clone());
        let pieces = manifest.operators.get(&self.node.id).map(|entry| entry.pieces.clone()).unwrap_or_default();
        let (store, planted) = (Arc::clone(&job.store), job.config.planted());
        let vnodes = if planted.is(Planted::NeighboursVnodesRestored) {
            VnodeRange::of_task((seat.task + 1) % self.node.parallelism, self.node.parallelism, job.config.vnodes)
        } else {
            ctx.vnodes
        };
        let restore = (!pieces.is_empty()).then(|| -> Restore {
            Box::new(move || {
                let mut restored = read_pieces(store.as_ref(), &pieces, vnodes)?;
                if planted.is(Planted::TakenOverPiecesForgotten) {
                    restored.retain(|piece| piece.vnodes.start >= vnodes.start);
                }
                if planted.is(Planted::FiredForgotten) {
                    restored.retain(|piece| piece.name != "fired");
                }
                Ok(restored)
            })
        });
        OperatorTask::new(OperatorParts {
            seat: seat.clone(),
            node: operator.clone(),
            memory,
            ctx,
            restore,
            inputs: self.inputs,
            chains: self.chains,
            bad: self.bad,
            outputs: self.outputs,
            meters: self.meters,
            now: manifest.now,
            planted,
        })
    }

    fn sink(self, sink: &SinkNode) -> Result<SinkTask> {
        let (job, seat) = (self.job, self.seat);
        let manifest = &self.base.manifest;
        let acker = BarrierAcker::new(seat.signal.wake());
        let ctx = sink_ctx(job, self.node, sink, &manifest.run_id, manifest.generation)
            .with_task(seat.task, self.node.parallelism)
            .with_restored(self.base.restoring.then_some(manifest.epoch))
            .with_meters(self.meters.outside[seat.task].clone())
            .with_acker(acker.clone());
        let writer = sink.sink.open(ctx)?;
        match (&writer, two_phase(sink)) {
            (AnySink::AtLeastOnce(_), false) | (AnySink::Transactional(_), true) => {}
            (AnySink::AtLeastOnce(_), true) => {
                return Err(Error::internal("it planned exactly-once and opened a writer without two phases"));
            }
            (AnySink::Transactional(_), false) => {
                return Err(Error::internal("it opened a writer with two phases and had not planned exactly-once"));
            }
        }
        Ok(SinkTask::new(SinkParts {
            seat: seat.clone(),
            node: sink.clone(),
            writer,
            acker,
            inputs: self.inputs,
            bad: self.bad,
            outputs: self.outputs,
            meters: self.meters,
            kill: self.job.config.kill.clone(),
            planted: self.job.config.planted(),
        }))
    }
}
