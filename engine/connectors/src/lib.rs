//! Native connectors and the decoders and encoders they share.
