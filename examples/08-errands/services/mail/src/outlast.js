const { createOutlast } = require('outlast');
const config = require('../outlast.config.js');

// This service has no tables of its own, and so no adapter: it only runs tasks.
exports.outlast = createOutlast(config);
