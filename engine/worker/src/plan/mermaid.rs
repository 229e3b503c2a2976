//! The plan as a Mermaid flowchart.

use super::Planned;
use super::explain::{is_source, routing, visible_names};
use std::fmt::{self, Write};
use tidegate_runtime::graph::{Node, NodeKind, Pipe, PipeEnd};

impl Planned {
    /// The task graph as a Mermaid flowchart: nodes with their tasks and chained steps, edges with their routing.
    pub fn render_mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n");
        // Writing into a string cannot fail.
        let _ = self.write_mermaid(&mut text);
        text
    }

    fn write_mermaid(&self, out: &mut String) -> fmt::Result {
        let nodes = self.in_order();
        let place = |id: &str| nodes.iter().position(|node| node.id == id).unwrap_or_default();
        for (at, node) in nodes.iter().enumerate() {
            let label = self.label(node);
            let shape = match node.kind {
                NodeKind::Source(_) => format!("([{label}])"),
                NodeKind::Operator(_) => format!("[{label}]"),
                NodeKind::Sink(_) => format!("[({label})]"),
            };
            writeln!(out, "  n{at}{shape}")?;
        }
        for edge in &self.graph.edges {
            let said = format!("{}<br/>{}", routing(edge), visible_names(&edge.schema));
            writeln!(out, "  n{} -->|{}| n{}", place(&edge.from), quoted(&said), place(&edge.to))?;
        }
        Ok(())
    }

    fn label(&self, node: &Node) -> String {
        let mut lines = vec![format!("<b>{}</b> x{}", node.id, node.parallelism)];
        match &node.kind {
            NodeKind::Source(_) => {
                if let Some(summary) = self.sources.iter().find(|summary| is_source(node, summary)) {
                    lines.push(format!("reads {}", summary.columns.join(", ")));
                }
            }
            NodeKind::Operator(operator) => lines.push(operator.label.clone()),
            NodeKind::Sink(_) => {}
        }
        chained(&node.main, &mut lines);
        quoted(&lines.join("<br/>"))
    }
}

fn chained(pipe: &Pipe, lines: &mut Vec<String>) {
    lines.extend(pipe.steps.iter().map(|step| format!("{} {}", step.stage, step.label)));
    for end in &pipe.to {
        match end {
            PipeEnd::Pipe(next) => chained(next, lines),
            PipeEnd::Edge(_) => {}
        }
    }
}

/// A label in quotes; what would end it is written as an entity.
fn quoted(label: &str) -> String {
    format!("\"{}\"", label.replace('"', "#quot;").replace('\n', " "))
}
