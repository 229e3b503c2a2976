//! Places and geometries as they are written: distance, direction, and how they lie

use super::Function;
use super::answers::Answer;
use super::args::{Args, Shape};
use super::geo::{bearing, great_circle};
use super::places::{Source, Spot};
use super::shapes::{Corner, Geometry, contains, intersect};
use crate::Diagnostic;
use crate::node::{Kind, Node};
use crate::value::Value;
use arrow::datatypes::DataType;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "haversineKm",
        signature: "haversineKm(point, point) -> float64",
        doc: "The distance in kilometres between two points along a great circle of a sphere of radius 6371.0088 km; `haversine` has it in metres. A point is text `longitude,latitude` (an altitude may follow), a list [longitude, latitude] or a Point in GeoJSON. What is none, or lies outside -180 to 180 and -90 to 90, makes a bad row. Null if a point is null, or a list's longitude or latitude.",
        examples: &[
            ("round(haversineKm('13.405,52.52', '2.3522,48.8566'))", "877.0"),
            ("haversineKm([2, 1], '2,1,100')", "0.0"),
            (r#"round(haversineKm('0,0', '{"type": "Point", "coordinates": [1, 0]}'), 3)"#, "111.195"),
            ("haversineKm([0, null], [0, 0])", "null"),
            ("haversineKm('0,91', '0,0')", "error"),
        ],
        arity: (2, 2),
        bind: |args| of_points(args, |from, to| great_circle(from, to) / 1_000.0),
    },
    Function {
        name: "bearingDeg",
        signature: "bearingDeg(from, to) -> float64",
        doc: "The direction in which the great circle from one point to another begins, in degrees from 0 (north) over 90 (east) up to, but not including, 360; 0 between a point and itself. Points, nulls and bad rows as for `haversineKm`.",
        examples: &[
            ("bearingDeg('0,0', '1,0')", "90.0"),
            ("bearingDeg([0, 0], [0, 1])", "0.0"),
            ("bearingDeg('0,0', '-1,0')", "270.0"),
            ("bearingDeg('0,0', null)", "null"),
        ],
        arity: (2, 2),
        bind: |args| of_points(args, bearing),
    },
    Function {
        name: "geoContains",
        signature: "geoContains(a, b) -> bool",
        doc: "Whether every part of the geometry `b` is in `a`, and some part of it not only on the edge: a point on the side of a polygon is not contained. A geometry is GeoJSON (a geometry, a Feature or a FeatureCollection), a polygon in WKT, or a point as for `haversineKm`. Sides are straight on the map and do not cross the 180th meridian. What is no geometry, and geometries whose corners take more than 50 million steps to compare, make a bad row.",
        examples: &[
            ("geoContains('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))', '1,1')", "true"),
            ("geoContains('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))', [4, 1])", "false"),
            (
                r#"geoContains('{"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]]}', '{"type": "LineString", "coordinates": [[0, 0], [4, 4]]}')"#,
                "true",
            ),
            ("geoContains(null, '1,1')", "null"),
            ("geoContains('somewhere', '1,1')", "error"),
        ],
        arity: (2, 2),
        bind: |args| of_geometries(args, contains),
    },
    Function {
        name: "geoIntersects",
        signature: "geoIntersects(a, b) -> bool",
        doc: "Whether two geometries have a point in common; a common edge or corner is enough. Geometries and bad rows as for `geoContains`.",
        examples: &[
            ("geoIntersects('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))', [4, 1])", "true"),
            ("geoIntersects('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))', '5,1')", "false"),
            (
                r#"geoIntersects('{"type": "LineString", "coordinates": [[0, 0], [2, 2]]}', '{"type": "LineString", "coordinates": [[0, 2], [2, 0]]}')"#,
                "true",
            ),
            ("geoIntersects('1,1', null)", "null"),
        ],
        arity: (2, 2),
        bind: |args| of_geometries(args, intersect),
    },
    Function {
        name: "altitudeBetween",
        signature: "altitudeBetween(altitude, lowest, highest) -> bool",
        doc: "Whether an altitude lies between two others, both included; a bound that is null leaves its side open. Null for a null altitude; NaN lies between nothing.",
        examples: &[
            ("altitudeBetween(5000, 5000, 12000)", "true"),
            ("altitudeBetween(100, 5000, 12000)", "false"),
            ("altitudeBetween(100, null, 12000)", "true"),
            ("altitudeBetween(100, 50, null)", "true"),
            ("altitudeBetween(null, 0, 1)", "null"),
        ],
        arity: (3, 3),
        bind: |mut args| {
            args.take(&[Shape::Float])?;
            for (at, open) in [(1, f64::NEG_INFINITY), (2, f64::INFINITY)] {
                let bound = std::mem::replace(&mut args.nodes[at], Node::literal(Value::Float(open), DataType::Float64, args.span.clone()));
                let (open, span) = (args.nodes[at].clone(), bound.span.clone());
                args.nodes[at] = Node::new(Kind::Coalesce(vec![bound, open]), DataType::Float64, span, false);
            }
            Ok(args.into_bool(|row| row.float(1) <= row.float(0) && row.float(0) <= row.float(2)))
        },
    },
];

fn of_points(mut args: Args<'_>, measure: fn(Corner, Corner) -> f64) -> Result<Node, Diagnostic> {
    let (a, b) = (Source::<Spot>::of(&mut args, 0)?, Source::<Spot>::of(&mut args, 1)?);
    Ok(args.into_float(move |row| -> Answer<f64> {
        let (from, to) = (a.read(row)?, b.read(row)?);
        Ok(from.zip(to).map(|(from, to)| measure(from.corner(), to.corner())))
    }))
}

fn of_geometries(mut args: Args<'_>, test: fn(&Geometry, &Geometry) -> Result<bool, String>) -> Result<Node, Diagnostic> {
    let (a, b) = (Source::<Arc<Geometry>>::of(&mut args, 0)?, Source::<Arc<Geometry>>::of(&mut args, 1)?);
    Ok(args.into_bool(move |row| -> Answer<bool> {
        match (a.read(row)?, b.read(row)?) {
            (Some(a), Some(b)) => test(&a, &b).map(Some),
            _ => Ok(None),
        }
    }))
}
