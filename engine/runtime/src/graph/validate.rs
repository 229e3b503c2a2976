use super::{BadRoute, EdgeId, EdgeSpec, JobGraph, Node, NodeKind, Pipe, PipeEnd, Routing, late_schema};
use arrow::datatypes::{Schema, SchemaRef};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{Error, OnBadData, Result, bad, hidden};

impl JobGraph {
    /// The node of this id.
    pub fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The edge of this id.
    pub fn edge(&self, id: EdgeId) -> Option<&EdgeSpec> {
        self.edges.iter().find(|edge| edge.id == id)
    }

    /// Nodes in an order in which every producer stands before its consumers.
    ///
    /// # Errors
    /// `Internal` for a cycle, naming a node on it, or an edge of an unknown node.
    pub fn topological(&self) -> Result<Vec<usize>> {
        let index: BTreeMap<&str, usize> = self.nodes.iter().enumerate().map(|(at, node)| (node.id.as_str(), at)).collect();
        let find = |edge: &EdgeSpec, id: &str| {
            index.get(id).copied().ok_or_else(|| Error::internal(format!("edge {} names the unknown node `{id}`", edge.id)))
        };
        let mut waits = vec![0; self.nodes.len()];
        let mut consumers = vec![Vec::new(); self.nodes.len()];
        for edge in &self.edges {
            let (from, to) = (find(edge, &edge.from)?, find(edge, &edge.to)?);
            waits[to] += 1;
            consumers[from].push(to);
        }
        let mut order: Vec<usize> = (0..self.nodes.len()).filter(|at| waits[*at] == 0).collect();
        let mut next = 0;
        while let Some(&at) = order.get(next) {
            next += 1;
            for &consumer in &consumers[at] {
                waits[consumer] -= 1;
                if waits[consumer] == 0 {
                    order.push(consumer);
                }
            }
        }
        match (0..self.nodes.len()).find(|at| waits[*at] > 0) {
            Some(at) => Err(Error::internal(format!("node `{}` feeds itself", self.nodes[at].id))),
            None => Ok(order),
        }
    }

    /// Checks what the runtime relies on: unique ids, no cycle, each edge fed once with the schema it declares, and routings and
    /// policies that can work.
    ///
    /// # Errors
    /// `Internal`, naming the node or edge at fault.
    pub fn validate(&self) -> Result<()> {
        let mut ids = BTreeSet::new();
        for node in &self.nodes {
            if !ids.insert(node.id.as_str()) {
                return Err(Error::internal(format!("two nodes are called `{}`", node.id)));
            }
            if node.parallelism == 0 {
                return Err(Error::internal(format!("node `{}` has no task", node.id)));
            }
        }
        let mut edges = BTreeSet::new();
        if let Some(twice) = self.edges.iter().find(|edge| !edges.insert(edge.id)) {
            return Err(Error::internal(format!("two edges are called {}", twice.id)));
        }
        self.topological()?;
        let mut fed = BTreeSet::new();
        for node in &self.nodes {
            self.check_node(node, &mut fed).map_err(|error| error.context(format!("node `{}`", node.id)))?;
        }
        if let Some(edge) = self.edges.iter().find(|edge| !fed.contains(&edge.id)) {
            return Err(Error::internal(format!("edge {} is fed by no pipe of `{}`", edge.id, edge.from)));
        }
        self.edges.iter().try_for_each(|edge| self.check_edge(edge))
    }

    fn check_node(&self, node: &Node, fed: &mut BTreeSet<EdgeId>) -> Result<()> {
        let mut dead_letters = false;
        let incoming = || self.edges.iter().filter(|edge| edge.to == node.id);
        match &node.kind {
            NodeKind::Source(source) => {
                if incoming().next().is_some() {
                    return Err(Error::internal("a source has an input"));
                }
                if source.emit_keys && !source.request.ordinals {
                    return Err(Error::internal("keys are emitted but ordinals were not asked for"));
                }
                if let Some(time) = &source.time {
                    source.plan.schema.index_of(&time.column)?;
                }
                dead_letters |= source.on_bad == OnBadData::DeadLetter;
                if let Some(late) = &node.late {
                    self.check_pipe(node, late, &source.output_schema(), fed, &mut dead_letters)?;
                }
            }
            NodeKind::Operator(operator) => {
                if let Some(unfed) = (0..operator.inputs).find(|input| incoming().all(|edge| edge.input != *input)) {
                    return Err(Error::internal(format!("input {unfed} has no edge")));
                }
                dead_letters |= operator.on_bad == OnBadData::DeadLetter;
                if let (Some(late), Some(input)) = (&node.late, incoming().find(|edge| edge.input == 0)) {
                    let made = operator.factory.late_schema().unwrap_or_else(|| SchemaRef::clone(&input.schema));
                    self.check_pipe(node, late, &late_schema(&made), fed, &mut dead_letters)?;
                }
            }
            NodeKind::Sink(sink) => {
                if !node.main.steps.is_empty() || !node.main.to.is_empty() || node.late.is_some() {
                    return Err(Error::internal("a sink has an output"));
                }
                if incoming().next().is_none() {
                    return Err(Error::internal("a sink has no input"));
                }
                dead_letters |= sink.on_bad == OnBadData::DeadLetter;
            }
        }
        if let Some(schema) = node.output_schema() {
            self.check_pipe(node, &node.main, &schema, fed, &mut dead_letters)?;
        }
        match node.bad {
            BadRoute::Edge(edge) => self.check_fed(node, edge, &bad::dead_letter_schema(), fed),
            BadRoute::Nowhere if dead_letters => Err(Error::internal("bad rows become dead letters but have no edge to go to")),
            BadRoute::Nowhere => Ok(()),
        }
    }

    fn check_pipe(&self, node: &Node, pipe: &Pipe, input: &SchemaRef, fed: &mut BTreeSet<EdgeId>, dead_letters: &mut bool) -> Result<()> {
        *dead_letters |= pipe.steps.iter().any(|step| step.on_bad == OnBadData::DeadLetter);
        let schema = pipe.steps.last().map_or_else(|| SchemaRef::clone(input), |step| step.factory.output_schema());
        for end in &pipe.to {
            match end {
                PipeEnd::Pipe(next) => self.check_pipe(node, next, &schema, fed, dead_letters)?,
                PipeEnd::Edge(edge) => self.check_fed(node, *edge, &schema, fed)?,
            }
        }
        Ok(())
    }

    fn check_fed(&self, node: &Node, id: EdgeId, schema: &Schema, fed: &mut BTreeSet<EdgeId>) -> Result<()> {
        let edge = self.edge(id).ok_or_else(|| Error::internal(format!("there is no edge {id}")))?;
        if edge.from != node.id {
            return Err(Error::internal(format!("edge {id} comes from `{}`", edge.from)));
        }
        if !fed.insert(id) {
            return Err(Error::internal(format!("edge {id} is fed twice")));
        }
        same_columns(schema, &edge.schema).map_err(|error| error.context(format!("edge {id}")))
    }

    fn check_edge(&self, edge: &EdgeSpec) -> Result<()> {
        let (Some(from), Some(to)) = (self.node(&edge.from), self.node(&edge.to)) else {
            return Err(Error::internal(format!("edge {} has no two ends", edge.id)));
        };
        let inputs = match &to.kind {
            NodeKind::Source(_) => 0,
            NodeKind::Operator(operator) => operator.inputs,
            NodeKind::Sink(sink) => {
                same_columns(&sink.schema, &hidden::visible_schema(&edge.schema))
                    .map_err(|error| error.context(format!("edge {} into sink `{}`", edge.id, to.id)))?;
                if sink.wants_keys && edge.schema.index_of(hidden::KEY).is_err() {
                    return Err(Error::internal(format!("edge {} carries no keys for sink `{}`", edge.id, to.id)));
                }
                1
            }
        };
        if edge.input >= inputs {
            return Err(Error::internal(format!("edge {} goes to input {} of `{}`, which has {inputs}", edge.id, edge.input, to.id)));
        }
        match &edge.routing {
            Routing::Forward if from.parallelism != to.parallelism => Err(Error::internal(format!(
                "edge {} forwards from {} tasks of `{}` to {} of `{}`",
                edge.id, from.parallelism, from.id, to.parallelism, to.id
            ))),
            Routing::Hash(columns) if columns.iter().any(|column| *column >= edge.schema.fields().len()) => {
                Err(Error::internal(format!("edge {} hashes a column it does not have", edge.id)))
            }
            Routing::Forward | Routing::Hash(_) | Routing::RoundRobin | Routing::Broadcast => Ok(()),
        }
    }
}

/// Names and types must agree; nullability and metadata are the planner's business.
fn same_columns(made: &Schema, declared: &Schema) -> Result<()> {
    let describe =
        |schema: &Schema| schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect::<Vec<_>>();
    let (made, declared) = (describe(made), describe(declared));
    if made == declared {
        return Ok(());
    }
    Err(Error::internal(format!("the rows are `{}` but `{}` was declared", made.join(", "), declared.join(", "))))
}
